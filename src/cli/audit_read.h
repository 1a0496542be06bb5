/* audit_read.h - `keyhole audit show`, and the other verbs that show a journal */
#ifndef KEYHOLE_CLI_AUDIT_READ_H
#define KEYHOLE_CLI_AUDIT_READ_H

/* `argv` begins at the verb. Return: exit status. */
int kh_cli_audit_read(int argc, char **argv, int (*help)(void));

#endif
