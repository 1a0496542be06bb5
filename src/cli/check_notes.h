/* check_notes.h - what a sound configuration does that its writer may not expect */
#ifndef KEYHOLE_CLI_CHECK_NOTES_H
#define KEYHOLE_CLI_CHECK_NOTES_H

#include <stdbool.h>

struct kh_buf;
struct kh_config;
struct kh_diagnostics;

/*
 * One note for each rule that would take a WebSocket's handshake, sets a credential, and says
 * nothing of `websocket`: it refuses one. Rules of presets are left out. And one where
 * `limits.connections` is out of reach of the hard limit of descriptors; it has no rule. As lines
 * of text, or as the JSON objects of a list. Return: false: no memory.
 */
bool kh_check_notes_put(struct kh_buf *out, const struct kh_config *config,
			const struct kh_diagnostics *diags, bool json);

#endif
