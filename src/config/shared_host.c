/*
 * shared_host.c - hosts under which other customers have names or paths, too
 *
 * A credential that may go to any bucket, queue or site of a service also goes to those of other
 * customers: what the sandbox uploads there with our key, they can read. libpsl's private section
 * has many such suffixes. The table has those that it lacks, and the hosts on which the path names
 * the customer.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

enum owner {
	BY_NAME = 1, /* anybody can have a name below it */
	BY_PATH = 2, /* the first segment of the path says whose it is */
	BELOW = 4,   /* so it does at any name below it */
	GOOGLE = 8, /* its path may also be one of the JSON API, where the bucket is further back */
};

/* '*' is one label, or the end of one: there is a new kind of S3's hosts each year. */
static const struct shared {
	const char *host;
	unsigned owner;
	const char *source;
} table[] = {
	{ "s3*.amazonaws.com", BY_NAME | BY_PATH,
	  "docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html" },
	{ "s3*.*.amazonaws.com", BY_NAME | BY_PATH,
	  "docs.aws.amazon.com/general/latest/gr/s3.html" },
	{ "s3*.dualstack.*.amazonaws.com", BY_NAME | BY_PATH,
	  "docs.aws.amazon.com/AmazonS3/latest/API/dual-stack-endpoints.html" },
	{ "s3*.*.vpce.amazonaws.com", BY_NAME | BY_PATH | BELOW,
	  "docs.aws.amazon.com/AmazonS3/latest/userguide/privatelink-interface-endpoints.html" },
	{ "s3*.amazonaws.com.cn", BY_NAME | BY_PATH,
	  "docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html" },
	{ "s3*.*.amazonaws.com.cn", BY_NAME | BY_PATH,
	  "docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html" },
	{ "s3*.dualstack.*.amazonaws.com.cn", BY_NAME | BY_PATH,
	  "docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html" },
	{ "s3*.*.vpce.amazonaws.com.cn", BY_NAME | BY_PATH | BELOW,
	  "docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html" },
	{ "s3*.*.api.aws", BY_NAME | BY_PATH, "docs.aws.amazon.com/general/latest/gr/rande.html" },
	{ "sqs*.*.amazonaws.com", BY_PATH,
	  "docs.aws.amazon.com/general/latest/gr/sqs-service.html" },
	{ "sqs*.*.vpce.amazonaws.com", BY_PATH | BELOW,
	  "docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
	  "sqs-internetwork-traffic-privacy.html" },
	{ "sqs*.*.amazonaws.com.cn", BY_PATH,
	  "docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html" },
	{ "sqs*.*.api.aws", BY_PATH, "docs.aws.amazon.com/general/latest/gr/sqs-service.html" },
	{ "queue.amazonaws.com", BY_PATH,
	  "docs.aws.amazon.com/general/latest/gr/sqs-service.html" },
	{ "*.queue.amazonaws.com", BY_PATH,
	  "docs.aws.amazon.com/general/latest/gr/sqs-service.html" },
	{ "*.queue.amazonaws.com.cn", BY_PATH,
	  "docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html" },
	{ "execute-api.*.amazonaws.com", BY_NAME,
	  "docs.aws.amazon.com/apigateway/latest/developerguide/how-to-call-api.html" },
	{ "lambda-url.*.on.aws", BY_NAME,
	  "docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html" },
	{ "blob.core.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/storage/common/storage-account-overview" },
	{ "dfs.core.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/storage/common/storage-account-overview" },
	{ "file.core.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/storage/common/storage-account-overview" },
	{ "queue.core.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/storage/common/storage-account-overview" },
	{ "table.core.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/storage/common/storage-account-overview" },
	{ "storage.azure.net", BY_NAME,
	  "learn.microsoft.com/azure/storage/common/storage-account-overview" },
	{ "vault.azure.net", BY_NAME,
	  "learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates" },
	{ "openai.azure.com", BY_NAME,
	  "learn.microsoft.com/azure/ai-services/cognitive-services-custom-subdomains" },
	{ "cognitiveservices.azure.com", BY_NAME,
	  "learn.microsoft.com/azure/ai-services/cognitive-services-custom-subdomains" },
	{ "services.ai.azure.com", BY_NAME,
	  "learn.microsoft.com/azure/ai-foundry/foundry-models/concepts/endpoints" },
	{ "azurecr.io", BY_NAME,
	  "learn.microsoft.com/azure/container-registry/container-registry-concepts" },
	{ "search.windows.net", BY_NAME, "learn.microsoft.com/rest/api/searchservice/" },
	{ "documents.azure.com", BY_NAME, "learn.microsoft.com/rest/api/cosmos-db/" },
	{ "database.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/azure-sql/database/connectivity-architecture" },
	{ "servicebus.windows.net", BY_NAME,
	  "learn.microsoft.com/azure/service-bus-messaging/service-bus-messaging-overview" },
	{ "storage.googleapis.com", BY_NAME | BY_PATH | GOOGLE,
	  "cloud.google.com/storage/docs/request-endpoints" },
	{ "storage.mtls.googleapis.com", BY_NAME | BY_PATH | GOOGLE,
	  "cloud.google.com/storage/docs/request-endpoints" },
	{ "storage.*.rep.googleapis.com", BY_NAME | BY_PATH | GOOGLE,
	  "cloud.google.com/storage/docs/regional-endpoints" },
	{ "www.googleapis.com", BY_PATH | GOOGLE, "cloud.google.com/storage/docs/json_api" },
	{ "storage.cloud.google.com", BY_PATH | GOOGLE,
	  "cloud.google.com/storage/docs/request-endpoints" },
	{ "r2.cloudflarestorage.com", BY_NAME, "developers.cloudflare.com/r2/api/s3/api/" },
	{ "digitaloceanspaces.com", BY_NAME,
	  "docs.digitalocean.com/products/spaces/reference/s3-compatibility/" },
	{ "*.digitaloceanspaces.com", BY_NAME | BY_PATH,
	  "docs.digitalocean.com/products/spaces/reference/s3-compatibility/" },
	{ "s3.*.backblazeb2.com", BY_NAME | BY_PATH,
	  "www.backblaze.com/docs/cloud-storage-call-the-s3-compatible-api" },
	{ "s3.wasabisys.com", BY_NAME | BY_PATH,
	  "docs.wasabi.com/docs/what-are-the-service-urls-for-wasabi-s-different-storage-regions" },
	{ "s3.*.wasabisys.com", BY_NAME | BY_PATH,
	  "docs.wasabi.com/docs/what-are-the-service-urls-for-wasabi-s-different-storage-regions" },
	{ "oss-*.aliyuncs.com", BY_NAME,
	  "www.alibabacloud.com/help/en/oss/user-guide/regions-and-endpoints" },
	{ "cos.*.myqcloud.com", BY_NAME | BY_PATH,
	  "www.tencentcloud.com/document/product/436/6224" },
	{ "atlassian.net", BY_NAME, "developer.atlassian.com/cloud/jira/platform/rest/v3/intro/" },
};

/* Takes the last label off. Return: false: there is none. */
static bool take_label(struct kh_slice *name, struct kh_slice *label)
{
	size_t dot = name->len;

	if (name->len == 0)
		return false;
	while (dot > 0 && name->ptr[dot - 1] != '.')
		dot--;
	*label = kh_slice_sub(*name, dot, name->len);
	*name = kh_slice_sub(*name, 0, dot > 0 ? dot - 1 : 0);
	return true;
}

static bool is_label(struct kh_slice pattern, struct kh_slice label)
{
	size_t star = kh_slice_find(pattern, '*', 0);

	return star == pattern.len
		       ? kh_slice_eq(pattern, label)
		       : kh_slice_eq(kh_slice_sub(pattern, 0, star), kh_slice_sub(label, 0, star));
}

/* From the right; what is left of the two then is after the pointers. */
static bool agree(struct kh_slice *pattern, struct kh_slice *name)
{
	struct kh_slice p, n;

	while (pattern->len > 0 && name->len > 0) {
		(void)take_label(pattern, &p);
		(void)take_label(name, &n);
		if (!is_label(p, n))
			return false;
	}
	return true;
}

/* NULL: everything that the pattern matches is one owner's, as far as is known. */
static const struct shared *find_shared(const struct kh_host_pattern *host, enum owner owner)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct kh_slice pattern = kh_slice_str(table[i].host);
		struct kh_slice name = kh_host_view(&host->host);
		if (!(table[i].owner & owner) || !agree(&pattern, &name))
			continue;
		/* A wildcard is at it, below it, or above it; most exact hosts are at it. */
		if (host->match == KH_MATCH_SUFFIX ||
		    (pattern.len == 0 && (name.len == 0 || (table[i].owner & BELOW))))
			return &table[i];
	}
	return NULL;
}

/* Takes the first segment off. Return: false: there is none. */
static bool take_segment(struct kh_slice *path, struct kh_slice *segment)
{
	if (path->len == 0 || path->ptr[0] != '/')
		return false;
	size_t end = kh_slice_find(*path, '/', 1);
	*segment = kh_slice_sub(*path, 1, end);
	*path = kh_slice_sub(*path, end, path->len);
	return true;
}

/* "/bucket/…": its first segment is one name. */
static bool is_one_name(struct kh_slice segment)
{
	return segment.len > 0 && kh_slice_find(segment, '*', 0) == segment.len;
}

/*
 * Behind "/b/BUCKET" of the JSON API. "/o/OBJECT/rewriteTo/b/BUCKET/o/OBJECT" and copyTo write to
 * another bucket: cloud.google.com/storage/docs/json_api/v1/objects/rewrite.
 */
static bool stays_in_bucket(struct kh_slice rest)
{
	enum { OTHER_BUCKET = 5 };
	struct kh_slice segment;

	for (size_t n = 1; take_segment(&rest, &segment); n++)
		if (n == OTHER_BUCKET || kh_slice_eq(segment, KH_SLICE("**")))
			return false;
	return true;
}

/*
 * "/storage/v1/b/BUCKET/…" and "/upload/storage/v1/b/BUCKET/…" name the bucket after "b"; what
 * else begins with a word of the API names none. Source: cloud.google.com/storage/docs/json_api,
 * and the paths in its discovery document (servicePath, batchPath, mediaUpload).
 */
static bool names_google_owner(struct kh_slice path)
{
	static const char *const words[] = { "storage", "upload", "download", "resumable",
					     "batch" };
	struct kh_slice first, version, b, bucket;
	bool is_word = false;

	if (!take_segment(&path, &first) || !is_one_name(first))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		is_word = is_word || kh_slice_eq(first, kh_slice_str(words[i]));
	if (!is_word)
		return true;
	bool upload = kh_slice_eq(first, KH_SLICE("upload"));
	if (upload && !take_segment(&path, &first))
		return false;
	return kh_slice_eq(first, KH_SLICE("storage")) && take_segment(&path, &version) &&
	       is_one_name(version) && take_segment(&path, &b) && kh_slice_eq(b, KH_SLICE("b")) &&
	       take_segment(&path, &bucket) && is_one_name(bucket) &&
	       (upload || stays_in_bucket(path));
}

static bool names_owner(const char *path, unsigned owner)
{
	struct kh_slice rest = kh_slice_str(path), first;

	if (owner & GOOGLE)
		return names_google_owner(rest);
	return take_segment(&rest, &first) && is_one_name(first);
}

static bool is_bound(const struct kh_credential_config *credential, unsigned owner)
{
	for (size_t i = 0; i < credential->n_paths; i++)
		if (!names_owner(credential->paths[i], owner))
			return false;
	return credential->n_paths > 0;
}

static void check_wildcard(struct kh_reader *reader, const struct kh_credential_config *credential,
			   const struct kh_host_pattern *host)
{
	const struct shared *shared = find_shared(host, BY_NAME);
	bool listed = kh_config_is_private_suffix(host->host.text);

	if (!shared)
		shared = find_shared(host, BY_PATH);
	if (!shared && !listed)
		return;
	kh_diagnostics_add(
		reader->diags, false, credential->where,
		"credentials.%s.hosts: \"*.%s\" covers names of strangers (%s), who would "
		"get what is sent under this credential: name the hosts, or say "
		"shared_host: accept here%s",
		kh_esc_str(credential->name), host->host.text,
		listed ? "it is a public suffix" : shared->host,
		listed ? ", and public_suffix: allow at a rule with that wildcard" : "");
}

static void check_exact(struct kh_reader *reader, const struct kh_credential_config *credential,
			const struct kh_host_pattern *host)
{
	const struct shared *shared = find_shared(host, BY_PATH);

	/* Many that the list has are reached by path as well: "s3.eu-west-1.amazonaws.com". */
	if (!shared && !kh_config_is_private_suffix(host->host.text))
		return;
	if (is_bound(credential, shared ? shared->owner : BY_PATH))
		return;
	if (shared)
		kh_diagnostics_add(
			reader->diags, false, credential->where,
			"credentials.%s.hosts: at %s the first segment of the path says "
			"whose it is, a stranger's too: bind the credential to yours, as "
			"in paths: [ /NAME/** ], or say shared_host: accept",
			kh_esc_str(credential->name), host->host.text);
	else
		kh_diagnostics_add(
			reader->diags, false, credential->where,
			"credentials.%s.hosts: %s is a public suffix: a service gives names below "
			"it to strangers, and may give them paths at it: name your own host, such "
			"as NAME.%s, or bind the credential to your path, as in paths: "
			"[ /NAME/** ], or say shared_host: accept",
			kh_esc_str(credential->name), host->host.text, host->host.text);
}

void kh_shared_host_check(struct kh_reader *reader, const struct kh_credential_config *credential)
{
	for (size_t i = 0; i < credential->n_hosts && !credential->shared_host; i++) {
		if (credential->hosts[i].match == KH_MATCH_SUFFIX)
			check_wildcard(reader, credential, &credential->hosts[i]);
		else if (credential->hosts[i].match == KH_MATCH_EXACT)
			check_exact(reader, credential, &credential->hosts[i]);
	}
}

void kh_config_read_shared_host(struct kh_reader *reader, const struct kh_option *option,
				const struct kh_yaml_node *node, void *base)
{
	struct kh_credential_config *credential = base;

	if (node->kind == KH_NODE_SCALAR && kh_slice_eq(node->text, KH_SLICE("accept")))
		credential->shared_host = true;
	else
		kh_reader_error(reader, node, "%s: expected accept", option->path);
}
