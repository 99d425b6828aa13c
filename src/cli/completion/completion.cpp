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

// _strobe_words PROGRAM LAST CURRENT COMMAND... prints what the word CURRENT after the word LAST may be, according to
// the text of --help: the values of a flag such as "--dtype fp32|fp16|bf16", else commands and flags. It prints nothing
// where a file or a free value is expected; the shells then propose files.
constexpr const char* kWords = R"(_strobe_words() {
  local program=$1 last=$2 current=$3
  shift 3
  "$program" "$@" --help 2>/dev/null | awk -v last="$last" -v current="$current" '
    function same(a, b) { gsub(/-/, "_", a); gsub(/-/, "_", b); return a == b }
    BEGIN { expects_value = last ~ /^--/ }
    { name = $1; sub(/\[.*/, "", name) }
    /^usage: strobe( [a-z]+)+ [A-Z]/ && !/COMMAND/ { takes_file = 1 }
    /^[a-z]+:$/ { in_grids = $1 == "grids:" }
    /^  --/ { words = words name "\n" }
    /^  --/ && same(name, last) {
      value = $0
      expects_value = sub(/^  --[A-Za-z0-9_-]+(\[=| [^ ])/, "&", value)
      sub(/^  --[A-Za-z0-9_-]+(\[=| )/, "", value)
      sub(/[] ].*/, "", value)
      count = split(value, parts, "|")
      for (i = 1; expects_value && i <= count; ++i) if (parts[i] ~ /^[a-z0-9_-]+$/) values = values parts[i] "\n"
    }
    /^  [a-z][a-z0-9-]*  / { commands = commands name "\n"; if (in_grids && same(last, "--grid")) values = values name "\n" }
    END {
      if (current ~ /^-/) printf "%s", words
      else if (expects_value) printf "%s", values
      else if (!takes_file) printf "%s", commands words
    }'
}
)";

constexpr const char* kBash = R"(_strobe() {
  local current=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]} command=() word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    [[ $word == -* ]] && break
    command+=("$word")
  done
  # bash splits --flag=value into three words.
  if [[ $current == = ]]; then current=''; elif [[ $last == = ]]; then last=${COMP_WORDS[COMP_CWORD - 2]}; fi
  local words
  words=$(_strobe_words "${COMP_WORDS[0]}" "$last" "$current" "${command[@]}")
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _strobe strobe
)";

constexpr const char* kZsh = R"sh(_strobe() {
  local -a command found
  local word last=${words[CURRENT - 1]} current=$PREFIX
  for word in "${words[@]:1:$((CURRENT - 2))}"; do
    [[ $word == -* ]] && break
    command+=("$word")
  done
  if [[ $PREFIX == --*=* ]]; then
    last=${PREFIX%%=*} current=
    compset -P '*='
  fi
  found=(${(f)"$(_strobe_words "${words[1]}" "$last" "$current" "${command[@]}")"})
  if (( $#found )); then compadd -a found; else _files; fi
}
compdef _strobe strobe
)sh";

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
