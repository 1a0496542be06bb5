/* ca_rotate.c - `keyhole ca rotate`: makes the next step of changing the CA */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/escape.h>

#include "ca.h"
#include "cli_internal.h"

static int announce(const struct ca_options *o, const struct kh_ca_change *change)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_ca_announce(change, &err))
		return kh_cli_ca_failed(&err);
	if (!o->now)
		puts("The next CA is made. Reload the daemon (`keyhole ctl reload`): sandboxes "
		     "that start then trust both,\nand the old one signs. When no sandbox is left "
		     "that trusts the old one alone, run `keyhole ca rotate`\nagain.");
	return 0;
}

static int switch_over(const struct ca_options *o, const struct kh_ca_change *change)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_ca_switch(change, !o->now, &err))
		return kh_cli_ca_failed(&err);
	puts(o->now ? "Another CA is to sign, and the old one is trusted no more. Reload the "
		      "daemon (`keyhole ctl reload`),\nand start every sandbox anew."
		    : "The new CA signs when the daemon has been reloaded (`keyhole ctl reload`). "
		      "The old one's key is gone,\nand it stays trusted until its last leaf has "
		      "expired: run `keyhole ca rotate` once more after a day.");
	return 0;
}

static int retire(const struct ca_options *o, const struct kh_ca_change *change,
		  const struct kh_ca_trust *trust)
{
	struct kh_err err = KH_ERR_INIT;
	char when[32];
	if (!o->drop && time(NULL) < trust->old_until) {
		kh_cli_complain("ca: rotate: a leaf of the old CA may live until %s (wait, or say "
				"--drop)",
				kh_cli_ca_day(trust->old_until, when));
		return KH_EXIT_FAILED;
	}
	if (!kh_ca_retire(change, &err))
		return kh_cli_ca_failed(&err);
	puts("The old CA is trusted no more by sandboxes that start from the daemon's next reload "
	     "on (`keyhole ctl\nreload`).");
	return 0;
}

static int rotate_under(const struct ca_options *o, const struct kh_ca_change *change)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca_trust trust;
	bool read = kh_ca_trust_read(&trust, o->certificate_path, &err);
	bool next = trust.facts[KH_CA_NEXT].there, old = trust.facts[KH_CA_OLD].there;
	int status = read ? 0 : kh_cli_ca_failed(&err);
	if (read && o->now) {
		if (!next)
			status = announce(o, change);
		if (status == 0)
			status = switch_over(o, change);
	} else if (read) {
		status = next  ? switch_over(o, change)
			 : old ? retire(o, change, &trust)
			       : announce(o, change);
	}
	kh_ca_trust_fini(&trust);
	return status;
}

int kh_cli_ca_rotate(const struct ca_options *o)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca_change change;
	/* Where there is none, nothing is made for its lock. */
	if (access(o->certificate_path, F_OK) != 0) {
		kh_err_sys(&err, KH_ERR_CONFIG, errno, "CA: %s", kh_esc_str(o->certificate_path));
		return kh_cli_ca_failed(&err);
	}
	if (!kh_ca_change_begin(&change, o->certificate_path, o->key_path, &err))
		return kh_cli_ca_failed(&err);
	int status = KH_EXIT_FAILED;
	/* The step that was meant is made; the next one would be another. */
	if (change.overtaken)
		kh_cli_complain("ca: rotate: another `keyhole ca rotate` has just changed this CA, "
				"and this one has done nothing (look at `keyhole ca show`, and run "
				"it again where one more change is meant)");
	else
		status = rotate_under(o, &change);
	kh_ca_change_end(&change);
	return status;
}
