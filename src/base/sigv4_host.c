/*
 * sigv4_host.c - which service and region an AWS host serves, by its name
 *
 * The forms are `SERVICE.REGION.amazonaws.com`, with a customer's part in front (a bucket),
 * `REGION.SERVICE.amazonaws.com`, and names without a region. The name that requests for the
 * service are signed with is that label (without `-fips`), or is in a table (bedrock-runtime:
 * bedrock). No prefix of a label counts as a service: vpc-lattice-svcs serves what customers put
 * there, and vpc-lattice manages it.
 */
#include <keyhole/base/sigv4_host.h>

static const struct kh_slice domains[] = {
	KH_SLICE_INIT(".amazonaws.com"),
	KH_SLICE_INIT(".amazonaws.com.cn"),
	KH_SLICE_INIT(".amazonaws.eu"),
	KH_SLICE_INIT(".api.aws"),
	KH_SLICE_INIT(".on.aws"),
	KH_SLICE_INIT(".api.amazonwebservices.com.cn"),
	KH_SLICE_INIT(".on.amazonwebservices.com.cn"),
};

/* Where the name that is signed for is not the label. The first is the one that goes in where the
 * client says none. `-fips` at a label's end is not looked at. */
static const struct {
	struct kh_slice label, service;
} aliases[] = {
	{ KH_SLICE_INIT("email"), KH_SLICE_INIT("ses") },
	{ KH_SLICE_INIT("iot"), KH_SLICE_INIT("iotdata") },
	{ KH_SLICE_INIT("iot"), KH_SLICE_INIT("iotdevicegateway") },
	{ KH_SLICE_INIT("marketplace"), KH_SLICE_INIT("aws-marketplace") },
	{ KH_SLICE_INIT("pinpoint"), KH_SLICE_INIT("mobiletargeting") },
	{ KH_SLICE_INIT("transcribestreaming"), KH_SLICE_INIT("transcribe") },
	{ KH_SLICE_INIT("queue"), KH_SLICE_INIT("sqs") },
	{ KH_SLICE_INIT("forecastquery"), KH_SLICE_INIT("forecast") },
	{ KH_SLICE_INIT("appstream2"), KH_SLICE_INIT("appstream") },
	{ KH_SLICE_INIT("sync-states"), KH_SLICE_INIT("states") },
	{ KH_SLICE_INIT("runtime-v2-lex"), KH_SLICE_INIT("lex") },
	{ KH_SLICE_INIT("models-v2-lex"), KH_SLICE_INIT("lex") },
	{ KH_SLICE_INIT("bedrock-agent"), KH_SLICE_INIT("bedrock") },
	{ KH_SLICE_INIT("bedrock-agent-runtime"), KH_SLICE_INIT("bedrock") },
	{ KH_SLICE_INIT("bedrock-data-automation"), KH_SLICE_INIT("bedrock") },
	{ KH_SLICE_INIT("bedrock-data-automation-runtime"), KH_SLICE_INIT("bedrock") },
	{ KH_SLICE_INIT("bedrock-runtime"), KH_SLICE_INIT("bedrock") },
	{ KH_SLICE_INIT("s3-accelerate"), KH_SLICE_INIT("s3") },
	{ KH_SLICE_INIT("s3-accesspoint"), KH_SLICE_INIT("s3") },
	{ KH_SLICE_INIT("s3-control"), KH_SLICE_INIT("s3") },
	{ KH_SLICE_INIT("s3-external-1"), KH_SLICE_INIT("s3") },
	{ KH_SLICE_INIT("lambda-url"), KH_SLICE_INIT("lambda") },
	{ KH_SLICE_INIT("aps-workspaces"), KH_SLICE_INIT("aps") },
	{ KH_SLICE_INIT("appsync-api"), KH_SLICE_INIT("appsync") },
	{ KH_SLICE_INIT("appsync-realtime-api"), KH_SLICE_INIT("appsync") },
	{ KH_SLICE_INIT("personalize-events"), KH_SLICE_INIT("personalize") },
	{ KH_SLICE_INIT("personalize-runtime"), KH_SLICE_INIT("personalize") },
};
enum { N_ALIASES = sizeof(aliases) / sizeof(*aliases) };

/* What comes before AWS's own domain; empty: it is none of them. */
static struct kh_slice labels_of(struct kh_slice host)
{
	for (size_t i = 0; i < sizeof(domains) / sizeof(*domains); i++)
		if (host.len > domains[i].len && kh_slice_has_suffix(host, domains[i]))
			return kh_slice_sub(host, 0, host.len - domains[i].len);
	return KH_SLICE("");
}

/* Takes the last label off. */
static struct kh_slice last_label(struct kh_slice *labels)
{
	size_t at = labels->len;

	while (at > 0 && labels->ptr[at - 1] != '.')
		at--;
	struct kh_slice label = kh_slice_sub(*labels, at, labels->len);
	labels->len = at > 0 ? at - 1 : 0;
	return label;
}

static bool is_word(struct kh_slice text, size_t least, size_t most)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 'a' || text.ptr[i] > 'z')
			return false;
	return text.len >= least && text.len <= most;
}

static bool is_direction(struct kh_slice text)
{
	static const struct kh_slice all[] = {
		KH_SLICE_INIT("central"),   KH_SLICE_INIT("east"),	KH_SLICE_INIT("north"),
		KH_SLICE_INIT("northeast"), KH_SLICE_INIT("northwest"), KH_SLICE_INIT("south"),
		KH_SLICE_INIT("southeast"), KH_SLICE_INIT("southwest"), KH_SLICE_INIT("west"),
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (kh_slice_eq(text, all[i]))
			return true;
	return false;
}

/* Takes what comes after the last dash off. */
static struct kh_slice last_part(struct kh_slice *name)
{
	size_t at = name->len;

	while (at > 0 && name->ptr[at - 1] != '-')
		at--;
	struct kh_slice part = kh_slice_sub(*name, at, name->len);
	name->len = at > 0 ? at - 1 : 0;
	return part;
}

/* A place, perhaps a partition, a direction, a number without a zero in front. */
bool kh_sigv4_is_region(struct kh_slice name)
{
	struct kh_slice number = last_part(&name), direction = last_part(&name);
	size_t dash = kh_slice_find(name, '-', 0);
	size_t end = dash < name.len ? dash : name.len;
	bool partitioned = dash < name.len;

	return number.len >= 1 && number.len <= 2 && number.ptr[0] != '0' &&
	       kh_is_digit(number.ptr[0]) && kh_is_digit(number.ptr[number.len - 1]) &&
	       is_direction(direction) && is_word(kh_slice_sub(name, 0, end), 2, 4) &&
	       (!partitioned || is_word(kh_slice_sub(name, dash + 1, name.len), 2, 4));
}

/* Says how the name is reached, not what is behind it. */
static bool is_manner(struct kh_slice label)
{
	return kh_slice_eq(label, KH_SLICE("dualstack")) || kh_slice_eq(label, KH_SLICE("fips")) ||
	       kh_slice_eq(label, KH_SLICE("vpce"));
}

struct place {
	struct kh_slice region, label;
};

static struct place place_of(struct kh_slice host)
{
	static const struct kh_slice old = KH_SLICE_INIT("s3-"); /* s3-eu-west-1.amazonaws.com */
	struct kh_slice labels = labels_of(host);
	struct kh_slice label = last_label(&labels);
	struct place place = { KH_SLICE(""), KH_SLICE("") };

	while (is_manner(label))
		label = last_label(&labels);
	if (kh_slice_has_prefix(label, old) &&
	    kh_sigv4_is_region(kh_slice_sub(label, old.len, label.len)))
		return (struct place){ kh_slice_sub(label, old.len, label.len), KH_SLICE("s3") };
	if (kh_sigv4_is_region(label)) {
		place.region = label;
		do
			place.label = last_label(&labels);
		while (is_manner(place.label));
		return place;
	}
	place.label = label;
	struct kh_slice before = last_label(&labels);
	if (kh_sigv4_is_region(before))
		place.region = before;
	return place;
}

bool kh_sigv4_is_name(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (!(c >= 'a' && c <= 'z') && !kh_is_digit(c) && c != '-' && c != '_')
			return false;
	}
	return text.len > 0 && text.len < KH_SIGV4_NAME_BYTES;
}

bool kh_sigv4_host_is_known(struct kh_slice host)
{
	return labels_of(host).len > 0;
}

struct kh_slice kh_sigv4_host_region(struct kh_slice host)
{
	return place_of(host).region;
}

static struct kh_slice service_label(struct kh_slice host)
{
	static const struct kh_slice fips = KH_SLICE_INIT("-fips");
	struct kh_slice label = place_of(host).label;

	return kh_slice_has_suffix(label, fips) ? kh_slice_sub(label, 0, label.len - fips.len)
						: label;
}

struct kh_slice kh_sigv4_host_service(struct kh_slice host)
{
	struct kh_slice label = service_label(host);

	for (size_t i = 0; i < N_ALIASES; i++)
		if (kh_slice_eq(label, aliases[i].label))
			return aliases[i].service;
	return label;
}

bool kh_sigv4_host_fits_service(struct kh_slice host, struct kh_slice service)
{
	struct kh_slice label = service_label(host);
	bool fits = kh_slice_eq(label, service);

	for (size_t i = 0; i < N_ALIASES; i++)
		fits = fits || (kh_slice_eq(label, aliases[i].label) &&
				kh_slice_eq(service, aliases[i].service));
	return fits && label.len > 0 && service.len > 0;
}

bool kh_sigv4_host_fits_region(struct kh_slice host, struct kh_slice region)
{
	struct kh_slice named = kh_sigv4_host_region(host);

	return kh_sigv4_host_is_known(host) &&
	       (named.len == 0 ? kh_sigv4_is_region(region) : kh_slice_eq(named, region));
}
