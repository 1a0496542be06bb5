/* ctl_text.h - formats a daemon's status as lines and tables */
#ifndef KEYHOLE_CLI_CTL_TEXT_H
#define KEYHOLE_CLI_CTL_TEXT_H

#include <jansson.h>

void kh_ctl_show_status(const json_t *status);
void kh_ctl_show_sandboxes(const json_t *answer);

#endif
