/* git_words.h - finds the paths that a value of git's configuration may name */
#ifndef KEYHOLE_SANDBOX_GIT_WORDS_H
#define KEYHOLE_SANDBOX_GIT_WORDS_H

#include <stdbool.h>

/* The position of a word in its command. */
enum {
	KH_GIT_WORD_PROGRAM = 1 << 0, /* the first word: without a slash it is searched in PATH */
	KH_GIT_WORD_OPTION = 1 << 1,  /* joined to an option (-Itools), or after "=" or ":" */
	KH_GIT_WORD_PART = 1 << 2,    /* the folder above a part that only the shell can expand */
};

struct kh_git_words {
	const char *home; /* NULL: unknown */
	/* Called for each reading of each word; a word usually has several, and some come twice. A
	 * relative path is relative to the top of the work tree. */
	void (*each)(void *arg, const char *word, unsigned how);
	void *arg;
	bool is_several; /* there is more than one word */
	bool is_unknown; /* it has a shell expression that is not expanded here */
	bool failed;	 /* without memory */
};
/* Splits a command as sh does, as far as possible before it runs: quotes, $PWD, $HOME and `git
 * rev-parse --show-toplevel`. Also gives words in quoted commands (sh -c '…'). */
void kh_git_words_each(struct kh_git_words *words, const char *value);
/* Expands ~/, ~user/ and %(prefix)/ as git and the shell do. Heap. Return: NULL without memory. */
char *kh_git_words_expand(const char *home, const char *text);

#endif
