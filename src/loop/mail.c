/* mail.c - leaves mail for an event thread: a locked list and an eventfd */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/loop/dynamic_sandboxes.h>

#include "mail_internal.h"

static void post(struct kh_loop *loop, const struct kh_mail *letter)
{
	struct kh_mail *mail = malloc(sizeof(*mail));
	uint64_t one = 1;

	if (!mail) {
		/* A lost answer ends in the handshake's or exchange's own timeout; rules that are
		 * no longer in force must not stay, nor sandboxes that were removed. */
		if (letter->kind == KH_MAIL_RELOAD || letter->kind == KH_MAIL_SUPERSEDED ||
		    letter->kind == KH_MAIL_DYNAMIC_SANDBOX_GONE)
			abort();
		kh_dynamic_sandbox_unref(letter->dynamic_sandbox);
		return;
	}
	*mail = *letter;
	mail->next = NULL;
	pthread_mutex_lock(&loop->mail_lock);
	struct kh_mail **at = &loop->mail;
	while (*at)
		at = &(*at)->next;
	*at = mail;
	pthread_mutex_unlock(&loop->mail_lock);
	(void)!write(loop->wake_fd, &one, sizeof(one));
}

void kh_loop_post_leaf(struct kh_loop *loop, const struct kh_host *host, const char *signer,
		       bool found)
{
	struct kh_mail mail = { .kind = KH_MAIL_LEAF, .host = *host, .found = found };

	(void)snprintf(mail.signer, sizeof(mail.signer), "%s", signer);
	post(loop, &mail);
}

void kh_loop_post_credential(struct kh_loop *loop, uint32_t generation, uint16_t index)
{
	post(loop, &(struct kh_mail){
			   .kind = KH_MAIL_CREDENTIAL, .generation = generation, .index = index });
}

void kh_loop_post_answer(struct kh_loop *loop, uint32_t question,
			 const struct kh_answered *answered)
{
	post(loop, &(struct kh_mail){
			   .kind = KH_MAIL_ANSWER, .question = question, .answered = *answered });
}

void kh_loop_post_drain(struct kh_loop *loop)
{
	post(loop, &(struct kh_mail){ .kind = KH_MAIL_DRAIN });
}

void kh_loop_post_retire(struct kh_loop *loop)
{
	post(loop, &(struct kh_mail){ .kind = KH_MAIL_RETIRE });
}

void kh_loop_post_superseded(struct kh_loop *loop)
{
	post(loop, &(struct kh_mail){ .kind = KH_MAIL_SUPERSEDED });
}

void kh_loop_post_dynamic_sandbox(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox,
				  uint16_t tenant)
{
	post(loop, &(struct kh_mail){ .kind = KH_MAIL_DYNAMIC_SANDBOX,
				      .dynamic_sandbox = kh_dynamic_sandbox_ref(dynamic_sandbox),
				      .index = tenant });
}

void kh_loop_post_dynamic_sandbox_gone(struct kh_loop *loop,
				       struct kh_dynamic_sandbox *dynamic_sandbox)
{
	post(loop, &(struct kh_mail){ .kind = KH_MAIL_DYNAMIC_SANDBOX_GONE,
				      .dynamic_sandbox = kh_dynamic_sandbox_ref(dynamic_sandbox) });
}

void kh_loop_post_reload(struct kh_loop *loop, struct kh_generation *g)
{
	post(loop, &(struct kh_mail){ .kind = KH_MAIL_RELOAD, .gen = kh_generation_ref(g) });
}
