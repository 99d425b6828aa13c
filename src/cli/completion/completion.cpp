// Implements `strobe completion SHELL`, which prints a completion script. When the user asks for completions, the
// script reads commands, flags and values from the program's --help, so it always matches the program.
#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "cli/verbs.h"
#include "core/fail.h"

namespace strobe::cli {
namespace {

constexpr const char* kHelp =
    "strobe completion: prints a completion script for a shell.\n\n"
    "usage: strobe completion bash|zsh\n\n"
    "bash: add to ~/.bashrc      eval \"$(strobe completion bash)\"\n"
    "zsh:  add to ~/.zshrc       eval \"$(strobe completion zsh)\"   after compinit\n";

// _strobe_words PROGRAM LAST COMMAND... prints what may follow the word LAST: the values of a flag such as
// "--dtype fp32|fp16|bf16", nothing for a flag with a free value, otherwise the flags and commands that --help lists.
constexpr const char* kWords = R"(_strobe_words() {
  local program=$1 last=$2
  shift 2
  "$program" "$@" --help 2>/dev/null | awk -v last="$last" '
    { name = $1; sub(/\[.*/, "", name) }
    /^  --/ && name == last {
      value = $0
      sub(/^  --[A-Za-z0-9_-]+(\[=| )/, "", value)
      sub(/[] ].*/, "", value)
      gsub(/\|/, "\n", value)
      has_value = value != ""
    }
    /^  --/ || /^  [a-z]+  / { words = words name "\n" }
    END { if (!has_value) printf "%s", words; else if (value ~ /\n/) print value }'
}
)";

constexpr const char* kBash = R"(_strobe() {
  local current=${COMP_WORDS[COMP_CWORD]} command=() word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    [[ $word == -* ]] && break
    command+=("$word")
  done
  local words
  words=$(_strobe_words "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD - 1]}" "${command[@]}")
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _strobe strobe
)";

constexpr const char* kZsh = R"(_strobe() {
  local -a command
  local word
  for word in "${words[@]:1:$((CURRENT - 2))}"; do
    [[ $word == -* ]] && break
    command+=("$word")
  done
  local -a found
  found=("${(@f)$(_strobe_words "${words[1]}" "${words[CURRENT - 1]}" "${command[@]}")}")
  compadd -a found
  _files
}
compdef _strobe strobe
)";

}  // namespace

int run_completion(Arguments arguments) {
  if (!arguments.empty() && asks_for_help(arguments[0])) {
    print_help(kHelp);
    return kFine;
  }
  if (arguments.size() != 1) fail(ErrorCode::invalid_argument, "completion: valid: strobe completion bash|zsh");
  const std::string shell = parse_word("completion", arguments[0], {"bash", "zsh"});
  print(kWords);
  print(shell == "bash" ? kBash : kZsh);
  return kFine;
}

}  // namespace strobe::cli
