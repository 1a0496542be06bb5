/*
 * review_owner.c - which owner a file gets that goes from the workspace to the agent, or back
 *
 * Only root has a choice. In a review, the files of the workspace's owner belong to the sandbox,
 * and no others do. A file that the agent could not read or change because it is another user's
 * stays that user's in both directions, whatever name it has by then.
 */
#include "review_internal.h"

struct kh_review_ids kh_review_owner_there(const struct kh_review_owner *owner,
					   const struct stat *ours)
{
	const struct stat *workspace = &owner->workspace;
	return (struct kh_review_ids){
		.set = owner->change,
		.uid = ours->st_uid == workspace->st_uid ? KH_SANDBOX_HOST_UID : ours->st_uid,
		.gid = ours->st_gid == workspace->st_gid ? KH_SANDBOX_HOST_GID : ours->st_gid,
	};
}

struct kh_review_ids kh_review_owner_back(const struct stat *place, const struct stat *theirs)
{
	return (struct kh_review_ids){
		.set = true,
		.uid = theirs->st_uid == KH_SANDBOX_HOST_UID ? place->st_uid : theirs->st_uid,
		.gid = theirs->st_gid == KH_SANDBOX_HOST_GID ? place->st_gid : theirs->st_gid,
	};
}

bool kh_review_owner_is_same(const struct stat *was, const struct stat *now)
{
	return ((was->st_mode ^ now->st_mode) & S_IFMT) == 0 && was->st_dev == now->st_dev &&
	       was->st_ino == now->st_ino && was->st_uid == now->st_uid &&
	       was->st_gid == now->st_gid;
}
