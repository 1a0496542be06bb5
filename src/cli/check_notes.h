/* check_notes.h - notes about effects of a valid configuration that its author may not expect */
#ifndef KEYHOLE_CLI_CHECK_NOTES_H
#define KEYHOLE_CLI_CHECK_NOTES_H

#include <stdbool.h>

struct kh_buf;
struct kh_config;
struct kh_diagnostics;

/*
 * Appends one note for each rule that matches a WebSocket handshake, sets a credential, and has no
 * `websocket`, so that it refuses the WebSocket, and one for each rule that opens a whole host, or
 * gives a credential to one, with neither methods nor a path; rules of presets are skipped. Appends
 * one note, without a rule, if the hard limit of descriptors is too low for `limits.connections`.
 * The notes are lines of text, or JSON objects of a list. Return: false: no memory.
 */
bool kh_check_notes_put(struct kh_buf *out, const struct kh_config *config,
			const struct kh_diagnostics *diags, bool json);

#endif
