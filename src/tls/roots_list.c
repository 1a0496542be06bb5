/*
 * roots_list.c - trust roots by subject, each read when a chain first leads to it
 *
 * Reading a certificate costs OpenSSL 0.2 ms, most of it for the key, and a system has 140 roots of
 * which a sandbox's upstreams need three. So of each only the subject is read at first. The store
 * asks for a subject that it does not have (an X509_LOOKUP); then that one is read, and the store
 * keeps it.
 *
 * Certificates that share a subject are decoded at the start, because the store asks for a subject
 * only once and must find all of them.
 */
#include "roots_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <keyhole/base/log.h>

struct root {
	unsigned long subject; /* X509_NAME_hash_ex: equal where the names are */
	uint8_t *der;	       /* OpenSSL's memory */
	long len;
	bool in_store; /* while the list is made; then fixed */
};

struct kh_roots_list {
	struct root *roots; /* by subject, when in use */
	size_t n, room;
	atomic_bool complained;
};

struct kh_roots_list *kh_roots_list_new(void)
{
	return calloc(1, sizeof(struct kh_roots_list));
}

void kh_roots_list_free(struct kh_roots_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->n; i++)
		OPENSSL_free(list->roots[i].der);
	free(list->roots);
	free(list);
}

/* ---- the subject alone ---- */

static void sequence_free(ASN1_SEQUENCE_ANY *sequence)
{
	sk_ASN1_TYPE_pop_free(sequence, ASN1_TYPE_free);
}
KH_DEFINE_CLEANUP(ASN1_SEQUENCE_ANY, sequence_free)
KH_DEFINE_CLEANUP(X509_NAME, X509_NAME_free)

/* The bytes of member `i`, if that is a SEQUENCE. */
static struct kh_slice sequence_at(const ASN1_SEQUENCE_ANY *outer, int i)
{
	const ASN1_TYPE *member = sk_ASN1_TYPE_value(outer, i);
	if (!member || ASN1_TYPE_get(member) != V_ASN1_SEQUENCE)
		return kh_slice_of(NULL, 0);
	const ASN1_STRING *bytes = member->value.sequence;
	return kh_slice_of(ASN1_STRING_get0_data(bytes), (size_t)ASN1_STRING_length(bytes));
}

static ASN1_SEQUENCE_ANY *open_sequence(struct kh_slice der)
{
	const unsigned char *p = (const unsigned char *)der.ptr;
	return der.len ? d2i_ASN1_SEQUENCE_ANY(NULL, &p, (long)der.len) : NULL;
}

/* RFC 5280 §4.1: Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version DEFAULT v1,
 * serialNumber, signature, issuer, validity, subject, … */
static bool read_subject(struct root *root)
{
	enum { SUBJECT = 4 /* without a version */ };
	struct kh_slice whole = kh_slice_of(root->der, (size_t)root->len);
	kh_cleanup(sequence_free_slot) ASN1_SEQUENCE_ANY *outer = open_sequence(whole);
	kh_cleanup(sequence_free_slot) ASN1_SEQUENCE_ANY *tbs =
		open_sequence(sequence_at(outer, 0));
	const ASN1_TYPE *first = sk_ASN1_TYPE_value(tbs, 0);
	if (!first)
		return false;
	bool has_version = ASN1_TYPE_get(first) != V_ASN1_INTEGER;
	struct kh_slice subject = sequence_at(tbs, SUBJECT + has_version);
	const unsigned char *p = (const unsigned char *)subject.ptr;
	kh_cleanup(X509_NAME_free_slot) X509_NAME *name =
		subject.len ? d2i_X509_NAME(NULL, &p, (long)subject.len) : NULL;
	int ok = 0;
	root->subject = name ? X509_NAME_hash_ex(name, NULL, NULL, &ok) : 0;
	return ok == 1;
}

/* ---- the whole ---- */

static bool put_in_store(const struct root *root, X509_STORE *store)
{
	kh_cleanup(X509_free_slot) X509 *cert =
		kh_certificate_from_der(kh_slice_of(root->der, (size_t)root->len));
	bool ok = cert && X509_STORE_add_cert(store, cert) == 1;
	ERR_clear_error();
	return ok;
}

static bool keep(struct kh_roots_list *list, struct root root)
{
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 256;
		struct root *grown = reallocarray(list->roots, room, sizeof(*grown));
		if (!grown)
			return false;
		list->roots = grown;
		list->room = room;
	}
	list->roots[list->n++] = root;
	return true;
}

unsigned kh_roots_list_add(struct kh_roots_list *list, struct kh_slice pem, X509_STORE *store,
			   unsigned *broken)
{
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	unsigned added = 0;
	while (bio && BIO_pending(bio) > 0) {
		size_t before = (size_t)BIO_pending(bio);
		struct root root = { 0 };
		if (PEM_bytes_read_bio(&root.der, &root.len, NULL, PEM_STRING_X509, bio, NULL,
				       NULL) == 1) {
			bool ok = read_subject(&root);
			/* Until one could be read, nobody knows that the file is one of roots. */
			if (ok && added == 0)
				ok = root.in_store = put_in_store(&root, store);
			ok = ok && keep(list, root);
			if (!ok)
				OPENSSL_free(root.der);
			added += ok;
			*broken += !ok;
		} else if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
			++*broken;
		}
		ERR_clear_error();
		if ((size_t)BIO_pending(bio) >= before) /* every turn takes something */
			break;
	}
	return added;
}

/* ---- when the store asks ---- */

static int by_subject(const void *a, const void *b)
{
	unsigned long x = ((const struct root *)a)->subject, y = ((const struct root *)b)->subject;
	return x < y ? -1 : x > y;
}

static void complain(struct kh_roots_list *list)
{
	if (!atomic_exchange(&list->complained, true))
		kh_log_warn("trust roots: a certificate that is asked for could not be read and is "
			    "left out");
}

/* The store's own, which it keeps as long as it lives; NULL. */
static X509 *find_in_store(X509_STORE *store, const X509_NAME *name)
{
	X509_STORE_lock(store);
	X509_OBJECT *object =
		X509_OBJECT_retrieve_by_subject(X509_STORE_get0_objects(store), X509_LU_X509, name);
	X509 *cert = object ? X509_OBJECT_get0_X509(object) : NULL;
	X509_STORE_unlock(store);
	return cert;
}

/* Called by any thread, without the store's lock. */
static int get_by_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name,
			  X509_OBJECT *out)
{
	struct kh_roots_list *list = X509_LOOKUP_get_method_data(lookup);
	X509_STORE *store = X509_LOOKUP_get_store(lookup);
	int ok = 0;
	struct root asked = { .subject = X509_NAME_hash_ex(name, NULL, NULL, &ok) };
	if (type != X509_LU_X509 || ok != 1 || list->n == 0)
		return 0;
	const struct root *root = bsearch(&asked, list->roots, list->n, sizeof(*root), by_subject);
	if (!root || root->in_store)
		return 0;
	if (!put_in_store(root, store)) {
		complain(list);
		return 0;
	}
	X509 *cert = find_in_store(store, name);
	if (!cert || X509_OBJECT_set1_X509(out, cert) != 1)
		return 0; /* the hash was the same, the name was not */
	/* Who called takes a reference for the asker and forgets `out`, with the one in it. */
	X509_free(cert);
	return 1;
}

static void free_lookup(X509_LOOKUP *lookup)
{
	kh_roots_list_free(X509_LOOKUP_get_method_data(lookup));
}

static X509_LOOKUP_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
	X509_LOOKUP_METHOD *made = X509_LOOKUP_meth_new("trust roots by subject");
	if (made && X509_LOOKUP_meth_set_get_by_subject(made, get_by_subject) == 1 &&
	    X509_LOOKUP_meth_set_free(made, free_lookup) == 1)
		method = made;
	else
		X509_LOOKUP_meth_free(made);
}

bool kh_roots_list_serve(struct kh_roots_list *list, X509_STORE *store)
{
	(void)pthread_once(&method_once, make_method);
	if (list->n > 0)
		qsort(list->roots, list->n, sizeof(*list->roots), by_subject);
	for (size_t i = 0; i < list->n; i++) {
		struct root *root = &list->roots[i];
		bool shared = (i > 0 && root->subject == root[-1].subject) ||
			      (i + 1 < list->n && root->subject == root[1].subject);
		if (!shared || root->in_store)
			continue;
		root->in_store = true;
		if (!put_in_store(root, store))
			complain(list);
	}
	X509_LOOKUP *lookup = method ? X509_STORE_add_lookup(store, method) : NULL;
	if (!lookup || X509_LOOKUP_set_method_data(lookup, list) != 1) {
		kh_roots_list_free(list);
		return false;
	}
	return true;
}
