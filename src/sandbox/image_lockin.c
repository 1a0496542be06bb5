/*
 * image_lockin.c - makes the two folders of an image tool accessible to it
 *
 * If root started keyhole, the tools run as the sandboxes' uid (idmap.c), so their folders are
 * mounted as owned by that uid. Otherwise they run as the user.
 */
#include <keyhole/base/cleanup.h>

#include "image_internal.h"

bool kh_image_lockin_open(struct kh_image_lockin *lockin, const char *source,
			  const struct kh_making *making, struct kh_err *err)
{
	*lockin = (struct kh_image_lockin){ .source = source, .folder = making->image };
	if (geteuid() != 0)
		return true;
	struct kh_view *view = &lockin->view;
	lockin->idmapped = true;
	if (!kh_view_bind_held(view, KH_MOUNT_READ, source, "/source", KH_TREE_AS_OWNER, err) ||
	    !kh_view_bind_held(view, KH_MOUNT_WRITE, making->image, "/image", KH_TREE_AS_OWNER,
			       err))
		return false;
	if (view->failed || view->n != 2)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	if (!kh_idmap_plan(&lockin->idmap, view, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID, err))
		return false;
	lockin->source = view->list[0].source;
	lockin->folder = view->list[1].source;
	return true;
}

void kh_image_lockin_fini(struct kh_image_lockin *lockin)
{
	if (lockin->idmapped) {
		kh_idmap_fini(&lockin->idmap);
		kh_view_fini(&lockin->view);
	}
	*lockin = (struct kh_image_lockin){ 0 };
}

bool kh_image_lockin_run(const struct kh_image_lockin *lockin, const char *const *argv,
			 const struct kh_making *making, const struct kh_image_options *options,
			 char said[KH_TOOL_SAID_BYTES], bool *failed, struct kh_err *err)
{
	struct kh_tool tool = {
		.argv = argv,
		.locked_in = true,
		.idmap = lockin->idmapped ? &lockin->idmap : NULL,
		.folder = lockin->folder,
		.watched = making->image,
		.options = options,
	};
	return kh_tool_run(&tool, said, failed, err);
}
