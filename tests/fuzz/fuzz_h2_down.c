/*
 * fuzz_h2_down.c - a sandbox's frames through sessions, streams, tunnels and exchanges, up to an
 * upstream that is held to the protocol
 *
 * Nothing that the sandbox writes may make keyhole break HTTP/2 towards the upstream, bring a
 * request there without exactly the credential that is due, leave an exchange without its end in
 * the journal, or leave anything behind.
 *
 * The first byte says how: in a tunnel (bit 0) or on the socket itself, with the upstream's
 * authority a.example or b.example (bit 1), in pieces (bit 2), to a reader that takes little (bit
 * 3), with a drain half-way (bit 4), and with an hour's silence at the end (bit 5).
 */
/* wrap: kh_up_acquire */
#include "h2_glue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 64 * 1024, TURNS = 6, PIECE_BYTES = 23, LITTLE_BYTES = 100 };

static void take_turns(void)
{
	for (int i = 0; i < TURNS && glue_turn(); i++)
		continue;
	kh_buf_clear(&glue.down.out);
	glue_changed(&glue.down);
}

static void say(struct kh_slice bytes)
{
	CHECK(kh_buf_append_slice(&glue.down.in, bytes));
	glue_changed(&glue.down);
	take_turns();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > INPUT_BYTES)
		return 0;
	uint8_t how = data[0];
	struct kh_slice in = kh_slice_of(data + 1, size - 1);
	size_t half = in.len / 2;

	glue_begin(false);
	if (how & 1)
		glue_enter_tunnel(how & 2 ? "b.example" : "a.example");
	if (how & 8)
		glue.down.room = LITTLE_BYTES;
	say(KH_SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"));
	while (in.len > 0 && glue.down.stream) {
		struct kh_slice piece = kh_slice_sub(in, 0, how & 4 ? PIECE_BYTES : in.len);

		say(piece);
		in = kh_slice_sub(in, piece.len, in.len);
		if ((how & 16) && in.len <= half && !kh_list_is_empty(&glue.loop->live)) {
			how &= (uint8_t)~16u;
			glue.session->member.ops->drain(&glue.session->member);
		}
	}
	take_turns();
	if (how & 32)
		glue_let_time_pass();
	glue_finish();
	return 0;
}
