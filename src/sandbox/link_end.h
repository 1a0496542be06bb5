/* link_end.h - where a symbolic link ends, for whoever follows it on the host */
#ifndef KEYHOLE_SANDBOX_LINK_END_H
#define KEYHOLE_SANDBOX_LINK_END_H

enum kh_link_end {
	KH_LINK_NO_FOLDER, /* at no folder, for anybody */
	KH_LINK_OUTSIDE,
	KH_LINK_INSIDE,
	KH_LINK_UNKNOWN, /* that depends on who follows it, or could not be found out */
};

/* Follows the link `name` of the folder `dir`, step by step and however it is spelled. Nothing is
 * mounted for its sake. KH_LINK_INSIDE: *path is where, from the folder `root`, through no link
 * (heap). */
enum kh_link_end kh_link_end(int root, int dir, const char *name, char **path);

#endif
