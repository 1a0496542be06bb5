/*
 * chain.c - which lines of a file belong to the journal
 *
 * `audit verify`, `audit show` and recovery all use this one reader, so that they can't disagree
 * about what was torn and what follows it. A line is the next of the chain if it is a valid record,
 * its `prev` is the hash of the record before, and its `seq` is one more. A line that is not next
 * is apart, and so are all lines after it, until one is next that is a `recovered` record and names
 * exactly these bytes by offset, length and hash. A record that is apart changes nothing, whatever
 * it says.
 *
 * Torn bytes never hold a whole record: they are what a death, or a full disk, left of one. So a
 * `recovered` record explains nothing if there is a line among the bytes that it names whose own
 * hash fits. Otherwise a worker that was taken over could declare honest records torn.
 */
#include "audit_internal.h"

/* What ends torn bytes may add a blank to them. */
enum { PAD_BYTES = 1 };

bool kh_chain_init(struct kh_chain *chain, struct kh_err *err)
{
	*chain = (struct kh_chain){ .seq = 0 };
	memcpy(chain->head, kh_audit_genesis_hex, sizeof(chain->head));
	return kh_digest_init(&chain->digest, err) && kh_digest_init(&chain->torn, err);
}

void kh_chain_fini(struct kh_chain *chain)
{
	kh_digest_fini(&chain->digest);
	kh_digest_fini(&chain->torn);
}

void kh_chain_stand(struct kh_chain *chain, uint64_t line, uint64_t seq, struct kh_slice head)
{
	chain->line = line;
	chain->seq = seq;
	memcpy(chain->head, head.ptr, KH_HASH_HEX);
}

/* Is it a sound record, wherever it stands? Return: NULL, or what is wrong with it. */
static const char *fault_of(struct kh_chain *chain, const struct kh_lines_piece *piece,
			    struct kh_line *line)
{
	chain->sound = false;
	if (!piece->begins || (!piece->ends && piece->bytes.len > KH_LINE_BYTES))
		return "no record (too long for one)";
	if (!piece->ends && !chain->adopts)
		return "cut off (no newline ends it)";
	if (!kh_line_parse(line, piece->bytes))
		return "no record (cut, changed or inserted)";
	chain->sound = kh_line_is_sound(&chain->digest, line);
	if (!chain->sound)
		return "changed (its hash does not fit)";
	if (!kh_line_is_json(piece->bytes))
		return "no record (hashed, but not JSON that every program reads alike)";
	if (!kh_line_has_form(line, piece->bytes))
		return "no record (hashed, but its time, its id or its reason is not where and "
		       "what it is due)";
	return NULL;
}

bool kh_chain_is_due(const struct kh_chain *chain, const struct kh_line *line)
{
	return line->seq == chain->seq + 1 && memcmp(line->prev.ptr, chain->head, KH_HASH_HEX) == 0;
}

static bool suspect(struct kh_chain *chain, const struct kh_lines_piece *piece)
{
	chain->suspect = true;
	chain->offset = piece->offset;
	chain->bytes = piece->bytes.len;
	chain->sound_line = chain->sound ? chain->line : 0;
	return kh_digest_begin(&chain->torn) && kh_digest_add(&chain->torn, piece->bytes);
}

static bool is_too_long(const struct kh_chain *chain)
{
	return chain->bytes > KH_LIMIT_TORN_BYTES + PAD_BYTES;
}

bool kh_chain_is_lost(const struct kh_chain *chain)
{
	return chain->suspect && (is_too_long(chain) || chain->sound_line > 0);
}

/* The newline before a `recovered` record is the record's own. */
static bool names_torn(const struct kh_chain *chain, struct kh_slice text)
{
	char hex[KH_HASH_HEX + 1];
	uint64_t offset, bytes;

	return !is_too_long(chain) && kh_line_number(text, "offset", &offset) &&
	       kh_line_number(text, "bytes", &bytes) && offset == chain->offset &&
	       bytes == chain->bytes && kh_digest_peek(&chain->torn, hex) &&
	       kh_slice_eq(kh_line_hex(text, "sha256"), kh_slice_of(hex, KH_HASH_HEX));
}

static bool explains(struct kh_chain *chain, struct kh_slice text)
{
	bool names = names_torn(chain, text);

	chain->covers = names && chain->sound_line > 0;
	return names && !chain->covers;
}

/*
 * The first record of a segment: the chain goes on from what it names. It is a `start` in the first
 * line, or, where that line was torn, the `recovered` record that explains all bytes of the file
 * before it.
 *
 * Who forges such a `recovered` gains nothing over who forges a `start`: either names the record
 * before by number and hash, which is held against the segment before, and by that hash the bytes
 * that were torn are part of the chain. Nor does it make a journal whose beginning was cut off a
 * segment: the bytes that an honest `recovered` names are no longer all that comes before it.
 */
static void take_base(struct kh_chain *chain, struct kh_slice text, const struct kh_line *line)
{
	bool first =
		!chain->suspect && chain->line == 1 && kh_slice_eq(line->event, KH_SLICE("start"));
	bool again = chain->suspect && chain->offset == 0 && chain->seq == 0 &&
		     kh_slice_eq(line->event, KH_SLICE("recovered"));
	uint64_t base;

	if ((!first && !again) || line->seq < 2 || !kh_line_number(text, "continues", &base) ||
	    base != line->seq - 1 || (again && !explains(chain, text)))
		return;
	chain->base = base;
	memcpy(chain->base_hash, line->prev.ptr, KH_HASH_HEX);
	kh_chain_stand(chain, chain->line, base, line->prev);
}

static void stay_apart(struct kh_chain *chain, const struct kh_lines_piece *piece)
{
	chain->bytes += piece->bytes.len + (piece->begins ? 1 : 0);
	if (chain->sound && chain->sound_line == 0)
		chain->sound_line = chain->line;
	if (piece->begins)
		(void)kh_digest_add(&chain->torn, KH_SLICE("\n"));
	(void)kh_digest_add(&chain->torn, piece->bytes);
}

enum kh_chain_place kh_chain_take(struct kh_chain *chain, const struct kh_lines_piece *piece,
				  struct kh_line *line, const char **fault)
{
	*line = (struct kh_line){ .seq = 0 };
	if (piece->begins)
		chain->line++;
	chain->covers = false;
	*fault = fault_of(chain, piece, line);
	if (!*fault)
		take_base(chain, piece->bytes, line);
	bool due = !*fault && kh_chain_is_due(chain, line);
	bool recovers = due && kh_slice_eq(line->event, KH_SLICE("recovered"));

	if (chain->suspect && recovers && explains(chain, piece->bytes)) {
		chain->suspect = false;
		kh_chain_stand(chain, chain->line, line->seq, line->hash);
		return KH_CHAIN_RECOVERED;
	}
	if (chain->suspect) {
		stay_apart(chain, piece);
		return KH_CHAIN_APART;
	}
	/* A `recovered` record in its place where nothing torn comes before it is not next. */
	if (!due || recovers)
		return suspect(chain, piece) ? KH_CHAIN_APART : KH_CHAIN_FAILED;
	kh_chain_stand(chain, chain->line, line->seq, line->hash);
	return KH_CHAIN_NEXT;
}

bool kh_chain_read(struct kh_chain *chain, struct kh_lines *lines,
		   void (*take)(void *context, const struct kh_journal_piece *piece), void *context,
		   struct kh_err *err)
{
	static const enum kh_journal_place places[] = {
		[KH_CHAIN_NEXT] = KH_JOURNAL_RECORD,
		[KH_CHAIN_RECOVERED] = KH_JOURNAL_RECOVERED,
		[KH_CHAIN_APART] = KH_JOURNAL_APART,
	};
	enum kh_lines_status status;
	struct kh_lines_piece piece;
	struct kh_line line;
	const char *fault;

	while ((status = kh_lines_next(lines, &piece, err)) == KH_LINES_PIECE) {
		enum kh_chain_place place = kh_chain_take(chain, &piece, &line, &fault);

		if (place == KH_CHAIN_FAILED)
			return kh_err_set(err, KH_ERR_INTERNAL, "journal: SHA-256 fails");
		take(context,
		     &(struct kh_journal_piece){
			     .place = kh_chain_is_lost(chain) ? KH_JOURNAL_BROKEN : places[place],
			     .line = chain->line,
			     .bytes = piece.bytes,
			     .ends = piece.ends,
		     });
	}
	return status == KH_LINES_END;
}

bool kh_journal_read(int fd, void (*take)(void *context, const struct kh_journal_piece *piece),
		     void *context, struct kh_err *err)
{
	struct kh_lines lines;
	struct kh_chain chain;
	bool ok;

	if (!kh_lines_init(&lines, fd, false, 0, err))
		return false;
	lines.wait_ms = KH_JOURNAL_WAIT_MS;
	ok = kh_chain_init(&chain, err) && kh_chain_read(&chain, &lines, take, context, err);
	kh_chain_fini(&chain);
	kh_lines_fini(&lines);
	return ok;
}
