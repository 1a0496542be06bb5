/*
 * home_template.h - files that a command finds in its home, with places for placeholders
 *
 * A profile of an agent and a preset may each have some. They are written in the sandbox, with mode
 * 0600, and only where the home has nothing of that name.
 */
#ifndef KEYHOLE_CONFIG_HOME_TEMPLATE_H
#define KEYHOLE_CONFIG_HOME_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

struct kh_home_template {
	char *path;    /* below the home: "a/b" */
	char *content; /* with places for kh_home_template_fill */
	char *needs;   /* a variable that must have a placeholder; NULL: none */
};

struct kh_home_templates {
	struct kh_home_template *list;
	size_t count;
};
void kh_home_templates_fini(struct kh_home_templates *templates);

/* The value of a variable's placeholder; NULL: it has none. */
typedef const char *kh_home_placeholder(const char *variable, void *arg);
/*
 * `content` with its places filled, each as the inside of a JSON string (which strings in double
 * quotes of TOML and YAML are too):
 *   ${workspace}      the folder that the command works in
 *   ${NAME}           the placeholder of the variable NAME
 *   ${NAME:-20}       the last 20 bytes of it
 *   $${               "${" itself
 * A variable without a placeholder gives nothing. Heap. Return: NULL without memory, or if a place
 * is not closed.
 */
char *kh_home_template_fill(const char *content, const char *workspace,
			    kh_home_placeholder *placeholder, void *arg);

#endif
