/*
 * override_name.h - every name by which a request asks for another method, host, path or source
 *
 * One table for fields and for query parameters. Servers that read a field from the query as well
 * (object stores do for a presigned request) use the same name, so most names are in both. The
 * quick filters before the table are generated from it, so that they can't miss an entry.
 */
#ifndef KEYHOLE_OVERRIDE_NAME_H
#define KEYHOLE_OVERRIDE_NAME_H

#include <keyhole/base/slice.h>

enum kh_override_kind {
	KH_OVERRIDE_NONE = 0,
	KH_OVERRIDE_METHOD,
	KH_OVERRIDE_METHOD_WORD, /* where its value is a method; most mean something else by it */
	KH_OVERRIDE_HOST,
	KH_OVERRIDE_FORWARDED, /* RFC 7239 */
	KH_OVERRIDE_PATH,
	KH_OVERRIDE_PATH_WORD, /* where its value begins with '/' */
	KH_OVERRIDE_ANYTHING,  /* stands for whole fields, or for the content */
	KH_OVERRIDE_MOVED,     /* a path or URL, which is gone afterwards */
	/* What the server reads by itself, now or when what it makes is read: copy_source.c. */
	KH_OVERRIDE_BUCKET_AND_KEY,  /* [/]bucket/key[?versionId=…] */
	KH_OVERRIDE_HOST_AND_KEY,    /* host/key[?versionId=…] */
	KH_OVERRIDE_URL,	     /* https://host/path[?snapshot=…] */
	KH_OVERRIDE_BLOB,	     /* where its value is a digest; which one of a repository */
	KH_OVERRIDE_REPOSITORY,	     /* beside KH_OVERRIDE_BLOB */
	KH_OVERRIDE_UNREADABLE,	     /* nobody here knows where that is */
	KH_OVERRIDE_UNREADABLE_WORD, /* where its value begins with '/' */
	KH_OVERRIDE_UNREADABLE_MANIFEST, /* where its value is not "get": the content names them */
};

enum { KH_OVERRIDE_IN_FIELD = 1, KH_OVERRIDE_IN_QUERY = 2, KH_OVERRIDE_IN_BOTH = 3 };

/* X(name, kind, where) */
#define KH_OVERRIDE_NAMES(X) \
	X("x-http-method-override", METHOD, BOTH) \
	X("x-http-method", METHOD, BOTH) \
	X("x-method-override", METHOD, BOTH) \
	X("x-http-methodoverride", METHOD, BOTH) \
	X("http-method-override", METHOD, BOTH) \
	X("x-method", METHOD, BOTH) \
	X("x-request-method", METHOD, BOTH) \
	X("x-original-method", METHOD, BOTH) \
	X("x-forwarded-method", METHOD, BOTH) \
	X("_method", METHOD, QUERY)	/* Rails, Laravel, Symfony */ \
	X("$httpMethod", METHOD, QUERY) /* Google's APIs */ \
	X("_HttpMethod", METHOD, QUERY) /* Salesforce */ \
	X("method", METHOD_WORD, QUERY) \
	X("x-forwarded-host", HOST, BOTH) \
	X("x-forwarded-for-host", HOST, BOTH) \
	X("x-host", HOST, BOTH) \
	X("x-original-host", HOST, BOTH) \
	X("x-forwarded-server", HOST, BOTH) \
	X("x-http-host-override", HOST, BOTH) \
	X("x-host-override", HOST, BOTH) \
	X("x-envoy-original-host", HOST, BOTH) \
	X("x-envoy-original-dst-host", HOST, BOTH) \
	X("x-forwarded-authority", HOST, BOTH) \
	X("x-original-authority", HOST, BOTH) \
	X("x-backend-host", HOST, BOTH) \
	X("x-request-host", HOST, BOTH) \
	X("x-rewrite-host", HOST, BOTH) \
	X("x-real-host", HOST, BOTH) \
	X("x-proxy-host", HOST, BOTH) \
	X("x-original-forwarded-host", HOST, BOTH) /* ingress-nginx */ \
	X("$wssn", HOST, FIELD)			   /* WebSphere */ \
	X("forwarded", FORWARDED, FIELD) \
	X("x-original-url", PATH, BOTH) \
	X("x-original-uri", PATH, BOTH) \
	X("x-original-path", PATH, BOTH) \
	X("x-original-prefix", PATH, BOTH) \
	X("x-original-request-uri", PATH, BOTH) \
	X("x-ms-original-url", PATH, BOTH) \
	X("x-envoy-original-path", PATH, BOTH) \
	X("x-rewrite-url", PATH, BOTH) \
	X("x-rewrite-uri", PATH, BOTH) \
	X("x-rewrite-path", PATH, BOTH) \
	X("x-override-url", PATH, BOTH) \
	X("x-forwarded-uri", PATH, BOTH) \
	X("x-forwarded-url", PATH, BOTH) \
	X("x-forwarded-path", PATH, BOTH) \
	X("x-forwarded-prefix", PATH, BOTH) \
	X("x-forwarded-pathbase", PATH, BOTH) \
	X("x-forwarded-path-base", PATH, BOTH) \
	X("x-forwarded-base-path", PATH, BOTH) \
	X("x-forwarded-context", PATH, BOTH) \
	X("x-forwarded-script-name", PATH, BOTH) \
	X("x-forwarded-request-uri", PATH, BOTH) \
	X("x-waws-unencoded-url", PATH, BOTH) \
	X("x-unencoded-url", PATH, BOTH) \
	X("x-proxy-url", PATH, BOTH) \
	X("x-http-destinationurl", PATH, BOTH) \
	X("script-name", PATH, FIELD) /* gunicorn takes these two from a field */ \
	X("path-info", PATH, FIELD) \
	X("request-uri", PATH, FIELD) \
	X("x-script-name", PATH, BOTH) /* WSGI middleware */ \
	X("x-script-url", PATH, BOTH) \
	X("x-path-info", PATH, BOTH) \
	X("x-path-prefix", PATH, BOTH) \
	X("x-base-path", PATH, BOTH) \
	X("x-context-path", PATH, BOTH) \
	X("x-request-uri", PATH, BOTH) \
	X("x-request-url", PATH, BOTH) \
	X("x-request-path", PATH, BOTH) \
	X("x-ingress-path", PATH, BOTH)	 /* Home Assistant */ \
	X("x-replaced-path", PATH, BOTH) /* Traefik */ \
	X("x-matched-path", PATH, BOTH)	 /* Vercel, Next.js */ \
	X("x-invoke-path", PATH, BOTH)	 /* Next.js */ \
	X("x-forwarded-original-path", PATH, BOTH) \
	X("x-accel-mapping", PATH, BOTH) /* Rack: which path the front end is to serve */ \
	X("x-sendfile-type", PATH, BOTH) \
	X("x-vault-namespace", PATH, BOTH)    /* the path's first segments */ \
	X("destination", PATH, FIELD)	      /* RFC 4918 §10.3 */ \
	X("destination-account", PATH, FIELD) /* Swift */ \
	X("destination", PATH_WORD, QUERY)    /* WebHDFS; others mean a name by it */ \
	X("$httpHeaders", ANYTHING, QUERY)    /* Google's APIs */ \
	X("$req", ANYTHING, QUERY) \
	X("$ct", ANYTHING, QUERY) \
	X("x-amz-copy-source", BUCKET_AND_KEY, BOTH) \
	X("x-goog-copy-source", BUCKET_AND_KEY, BOTH) \
	X("x-oss-copy-source", BUCKET_AND_KEY, BOTH) \
	X("x-obs-copy-source", BUCKET_AND_KEY, BOTH) \
	X("x-cos-copy-source", HOST_AND_KEY, BOTH) \
	X("x-ms-copy-source", URL, BOTH) \
	X("x-ms-undelete-source", UNREADABLE, BOTH) \
	X("x-ms-file-target-file", UNREADABLE, BOTH) /* a hard link's */ \
	X("x-ms-link-text", UNREADABLE, BOTH) \
	X("x-copy-from", UNREADABLE, BOTH) /* Swift, as the next ones */ \
	X("x-copy-from-account", UNREADABLE, BOTH) \
	X("x-symlink-target-account", UNREADABLE, BOTH) \
	X("x-object-manifest", UNREADABLE, BOTH) \
	X("x-versions-location", UNREADABLE, BOTH) \
	X("x-history-location", UNREADABLE, BOTH) \
	X("x-container-sync-to", UNREADABLE, BOTH) \
	X("multipart-manifest", UNREADABLE_MANIFEST, QUERY) \
	X("sources", UNREADABLE_WORD, QUERY) /* WebHDFS */ \
	X("mount", BLOB, QUERY)		     /* OCI distribution: across repositories */ \
	X("from", REPOSITORY, QUERY)

/* X(ending, kind): of any store's fields, "x-VENDOR" and this. */
#define KH_OVERRIDE_ENDINGS(X) \
	X("-copy-source", UNREADABLE) \
	X("-move-source", UNREADABLE) \
	X("-fetch-source", UNREADABLE) \
	X("-symlink-target", UNREADABLE) \
	X("-symlink-bucket", UNREADABLE) \
	X("-rename-source", MOVED)

/* What does this name say, in any spelling (spelling.h)? `parameter` is still escaped. */
enum kh_override_kind kh_override_of_field(struct kh_slice name);
enum kh_override_kind kh_override_of_parameter(struct kh_slice parameter);

#endif
