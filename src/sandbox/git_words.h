/* git_words.h - finds the paths that a value of git's configuration may name */
#ifndef KEYHOLE_SANDBOX_GIT_WORDS_H
#define KEYHOLE_SANDBOX_GIT_WORDS_H

#include <stdbool.h>

/* How a word stands in its command. */
enum {
	KH_GIT_WORD_PROGRAM = 1 << 0, /* first: without a slash it is a program of PATH */
	KH_GIT_WORD_OPTION = 1 << 1,  /* after an option, in one (-Itools), or after "=" or ":" */
	KH_GIT_WORD_PART = 1 << 2,    /* the folder above something that only the shell knows */
};

struct kh_git_words {
	const char *home; /* NULL: unknown */
	/* Each reading of each word; several of one word are usual, and some twice. A relative one
	   is read from the top of the work tree. */
	void (*each)(void *arg, const char *word, unsigned how);
	void *arg;
	bool is_several; /* there is more than one word */
	bool is_unknown; /* it holds something of the shell that is not expanded here */
	bool failed;	 /* without memory */
};
/* Takes a command apart as sh does, as far as that is known before it runs: quotes, $PWD, $HOME and
 * `git rev-parse --show-toplevel`. Words in quoted commands (sh -c '…') are given too. */
void kh_git_words_each(struct kh_git_words *words, const char *value);
/* ~/, ~user/ and %(prefix)/, as git and the shell expand them. Heap. Return: NULL without memory.
 */
char *kh_git_words_expand(const char *home, const char *text);

#endif
