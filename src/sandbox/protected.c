/* protected.c - names of a workspace that tools of the host run things from */
#include <stddef.h>

#include <keyhole/sandbox/sandbox.h>

#include "concern.h"

/* Beside .git, which is more than a name. */
const char *const kh_sandbox_protected[] = {
	".envrc", ".vscode", ".idea",	  ".devcontainer", ".cursor",	".windsurf",
	".zed",	  ".claude", ".codex",	  ".gemini",	   ".opencode", ".mcp.json",
	".kiro",  ".roo",    ".continue", ".qwen",	   NULL,
};

/* The same where they exist; a project without them has no use for an empty one. One that the
 * agent makes is set aside after the run (after.c). Shell patterns. */
const char *const kh_protected_names[] = {
	".husky",
	".pre-commit-config.yaml",
	"lefthook.[yt]*ml",
	"lefthook.json*",
	".lefthook.[yt]*ml",
	".lefthook.json*",
	"lefthook-local.[yt]*ml",
	"lefthook-local.json*",
	".lefthook-local.[yt]*ml",
	".lefthook-local.json*",
	"mise.toml",
	".mise.toml",
	"mise.*.toml",
	".mise.*.toml",
	".mise",
	"opencode.json",
	"opencode.jsonc",
	"crush.json",
	".crush.json",
	".aider.conf.yml",
	".yarnrc.yml",
	".yarnrc",
	"rust-toolchain",
	"rust-toolchain.toml",
	".helix",
	".factory",
	".Rprofile",
	"*.code-workspace",
	".lazygit.yml",
	".Renviron",
	".irbrc",
	".pryrc",
	".exrc",
	".nvimrc",
	".nvim.lua",
	"prek.toml",
	".pre-commit-config.yml",
	".amazonq",
	".kilocode",
	".trae",
	".junie",
	".openhands",
	".vs",
	".jj",
	NULL,
};

const char *const kh_concern_anywhere[] = {
	".claude",   ".mcp.json", ".vscode",	   ".jj",	 ".husky",	 ".cursor",
	".zed",	     ".idea",	  ".devcontainer", ".helix",	 ".Rprofile",	 ".codex",
	".gemini",   ".opencode", ".windsurf",	   ".kiro",	 ".roo",	 ".continue",
	".qwen",     ".amazonq",  ".kilocode",	   ".trae",	 ".junie",	 ".openhands",
	".vs",	     ".Renviron", ".irbrc",	   ".pryrc",	 ".exrc",	 ".nvimrc",
	".nvim.lua", "mise.toml", "mise.*.toml",   ".mise.toml", ".mise.*.toml", ".mise",
	NULL,
};
