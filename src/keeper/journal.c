/*
 * journal.c - opens the journal for a worker
 *
 * A worker gets two open file descriptions of its own, one to append and one to read. Flags and
 * offset of an open file description are shared by all holders, so the keeper never passes its own.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/log.h>

#include "keeper_internal.h"

static int open_anew(int journal, int flags, struct kh_err *err)
{
	char path[48];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", journal);
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: it can't be opened anew");
	return fd;
}

bool kh_journal_lend(int journal, struct kh_journal_files *out, struct kh_err *err)
{
	struct flock writer = { .l_type = F_WRLCK,
				.l_whence = SEEK_SET,
				.l_start = KH_JOURNAL_WRITER_BYTE,
				.l_len = 1 };
	*out = (struct kh_journal_files){ -1, -1 };
	kh_auto_close int append = open_anew(journal, O_WRONLY | O_APPEND, err);
	kh_auto_close int read = append >= 0 ? open_anew(journal, O_RDONLY, err) : -1;
	if (read < 0)
		return false;
	/* Of the open file: it lasts as long as the worker has it. */
	if (fcntl(append, F_OFD_SETLK, &writer) != 0)
		kh_log_warn("journal: who may read it holds a lock on it (%s), so a worker that "
			    "outlives the daemon would not be noticed by the next one (find "
			    "who: lslocks)",
			    strerror(errno));
	*out = (struct kh_journal_files){ kh_steal_fd(&append), kh_steal_fd(&read) };
	return true;
}

void kh_journal_lent(int journal, struct kh_journal_files *files)
{
	if (files->append >= 0)
		(void)close(files->append);
	if (files->read >= 0)
		(void)close(files->read);
	*files = (struct kh_journal_files){ -1, -1 };
	/* A process's record lock ends when it closes any descriptor of the file. */
	kh_journal_claim(journal);
}
