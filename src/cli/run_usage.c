/* run_usage.c - what `keyhole run --help` shows */
#include <stdio.h>

#include "run_internal.h"

/* In two parts: C promises no literal of more than 4095 bytes. */
static const char first[] =
	"usage: keyhole run [OPTION…] [--] COMMAND [ARGUMENT…]\n"
	"Runs a command in a sandbox without a network. The only way out is the proxy, which\n"
	"holds the keys. The command gets placeholders.\n\n"
	"  -c, --config FILE        the file with rules and credentials (keyhole.yaml)\n"
	"      --tenant NAME        the tenant whose rules apply, if FILE has several\n"
	"      --use PRESET[,PRESET…] adds presets, or uses them without FILE; keys come from "
	"your\n"
	"                           environment (`--use anthropic` takes ANTHROPIC_API_KEY);\n"
	"                           parameters as in github:repos=org/app,push=true\n"
	"      --allow RULE         allows what no other rule decides, without a credential:\n"
	"                           'GET,POST https://api.example.com/v1/*'\n"
	"      --observe            enforces no rule: all is let through, without a credential\n"
	"                           where the rules would refuse it, and is listed at the end\n"
	"      --ask                asks you about what no rule allows: see `keyhole ask`\n"
	"      --ask-time DURATION  how long that waits for you; 60s at most\n"
	"      --workspace DIR[:ro|:review[=new|=ID]] the folder to work in, with its own path;\n"
	"                           with :ro nothing is changed; with :review nothing is changed\n"
	"                           until you apply it (`keyhole workspace`); :review=new begins\n"
	"                           another review, :review=ID continues that one\n"
	"      --no-workspace       has none, also where a profile would take the current folder\n"
	"      --agent NAME         the agent's profile (policies/agents: claude, codex, gemini,\n"
	"                           opencode, openclaw, pi …); the default is the one for\n"
	"                           COMMAND, if there is one; none: without a profile\n"
	"      --mask-env           .env files in the workspace appear empty\n"
	"      --home DIR           keeps the agent's home between runs; the default is a new one\n"
	"      --ro PATH            shows one more folder or file of the host, read-only\n"
	"      --rootfs DIR[:O]     uses the root in DIR instead of the host's /usr; with :O\n"
	"                           changes go to a layer that is deleted at the end\n"
	"      --image IMAGE        uses the root of an image: oci:DIR[:TAG],\n"
	"                           oci-archive:FILE[:TAG], docker-archive:FILE[:NAME:TAG],\n"
	"                           podman:NAME, or debian[:SUITE]; with the engines podman and\n"
	"                           docker a NAME in their store; without a COMMAND, the image's\n"
	"                           own runs\n"
	"      --entrypoint WORD    replaces the image's entry point; an empty WORD means none\n"
	"      --env NAME[=VALUE]   sets a variable, or passes yours\n";

static const char rest[] =
	"      --engine NAME        what makes the sandbox: process (bubblewrap, the default),\n"
	"                           container (crun or runc), podman, docker, gvisor (runsc),\n"
	"                           or auto: container, or process if container does not work\n"
	"      --ports PORT[,PORT…] relays connections to these ports too, besides 80 and 443,\n"
	"                           for programs without proxy support\n"
	"      --capture-range RANGE gives names addresses of RANGE instead of 127.64.0.0/10, for\n"
	"                           programs that refuse private addresses: 11.0.0.0/10\n"
	"      --publish PORT[:PORT] forwards 127.0.0.1:PORT of the host to a server inside,\n"
	"                           on the second PORT\n"
	"      --memory SIZE        limits the memory of all processes together; above it the\n"
	"                           command ends (137)\n"
	"      --cpus N             limits the CPU time: 2, or 0.5\n"
	"      --pids N             limits the number of processes and threads\n"
	"      --disk SIZE          limits /tmp, and a home without --home, each\n"
	"      --timeout DURATION   ends the command after this time (124): 90s, 30m, 2h\n"
	"      --best-effort        runs without the limits that this host can't enforce\n"
	"      --audit FILE         the journal; the default is FILE's, without FILE a new one\n"
	"                           in $XDG_STATE_HOME/keyhole/audit\n"
	"  -q, --quiet              prints nothing at the end\n"
	"  -h, --help               shows this\n\n"
	"Exit status: the command's own; 124 time limit reached, 125 keyhole failed, 126 it can't\n"
	"be executed, 127 it was not found. The manual: keyhole-run(1).\n";

void kh_run_show_usage(void)
{
	fputs(first, stdout);
	fputs(rest, stdout);
}
