package admin

import (
	"strings"

	"github.com/alecthomas/kong"

	"kist/embed"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completionScripts ask kist complete for the words that may follow. It prints one a line, with
// what it means behind a tab. If it prints none, the shell completes names of files.
var completionScripts = map[string]string{
	"bash": `# kist completion bash. Put this into ~/.bashrc: source <(kist completion bash)
_kist() {
	local IFS=$'\n' word words=()
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		[[ $word == = ]] || words+=("$word") # bash splits --flag=value into three words
	done
	[[ ${COMP_WORDS[COMP_CWORD]} == = ]] && words+=("")
	COMPREPLY=($(kist complete "${words[@]}" 2>/dev/null | cut -f 1))
}
complete -o default -F _kist kist
`,
	"zsh": `#compdef kist
# kist completion zsh. Put this into ~/.zshrc, after compinit: source <(kist completion zsh)
_kist() {
	local -a lines
	lines=("${(@f)$(kist complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -z $lines[1] ]]; then
		_files
		return
	fi
	lines=("${(@)lines//:/\\:}")
	lines=("${(@)lines/$'\t'/:}")
	_describe kist lines
}
# As a file of a package it is read at the first completion, which it then answers.
if [[ $funcstack[1] == _kist ]]; then _kist "$@"; else compdef _kist kist; fi
`,
	"fish": `# kist completion fish. Put this into ~/.config/fish/completions/kist.fish
function __kist_complete
	kist complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c kist -n 'string length -q -- (__kist_complete)' -f -a '(__kist_complete)'
`,
}

func (cmd *completionCommand) Run(c *Call) error { return c.print(completionScripts[cmd.Shell]) }

type completeCommand struct {
	Words []string `arg:"" optional:"" help:"The words behind kist, with the last one as far as it is typed."`
}

func (cmd *completeCommand) Run(c *Call, ctx *kong.Context) error {
	var text strings.Builder
	for _, w := range complete(ctx.Model.Node, cmd.Words) {
		text.WriteString(w.text + "\t" + w.help + "\n")
	}
	return c.print(text.String())
}

// choice is a word that may follow, and what it means.
type choice struct{ text, help string }

// complete returns what the last word may become: commands, flags, or one of a fixed set of
// values.
func complete(root *kong.Node, words []string) []choice {
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	at := standing{command: root}
	for _, w := range words[:len(words)-1] {
		at = at.after(w)
	}

	var fitting []choice
	for _, w := range at.choices(last) {
		if strings.HasPrefix(w.text, last) {
			fitting = append(fitting, w)
		}
	}
	return fitting
}

// standing is where a command line has come to.
type standing struct {
	command *kong.Node
	flag    *kong.Flag // that waits for its value, or nil
	given   int        // arguments of the command
	help    bool       // they are those of kist help
}

// after is where it stands after one more word.
func (s standing) after(word string) standing {
	if s.flag != nil {
		s.flag = nil
		return s
	}
	if strings.HasPrefix(word, "-") {
		for _, f := range flagsOf(s.command) {
			if word == "--"+f.Name && !f.IsBool() {
				s.flag = f
			}
		}
		return s
	}
	for _, child := range s.command.Children {
		if child.Name == word {
			return standing{command: child}
		}
	}
	s.help = s.given == 0 && s.top() && word == "help"
	s.given++
	return s
}

// top reports whether no command has been named yet.
func (s standing) top() bool { return s.command.Type == kong.ApplicationNode }

// choices are the words that may stand there next. begun tells a flag from other words.
func (s standing) choices(begun string) []choice {
	var all []choice
	switch {
	case s.flag != nil:
		return values(s.flag.Value)
	case strings.HasPrefix(begun, "-"):
		command := s.command
		if command.DefaultCmd != nil {
			command = command.DefaultCmd // whose word may be left out
		}
		name, _, given := strings.Cut(begun, "=")
		for _, f := range flagsOf(command) {
			flag := "--" + f.Name
			switch {
			case !given:
				all = append(all, choice{flag, f.Help})
			case flag == name:
				for _, v := range values(f.Value) {
					all = append(all, choice{flag + "=" + v.text, v.help})
				}
			}
		}
		return all
	case s.help:
		for _, t := range embed.Topics(embed.English) {
			all = append(all, choice{t.Name, t.Summary})
		}
		return all
	case s.given < len(s.command.Positional):
		return values(s.command.Positional[s.given])
	case s.given > 0:
		return nil
	case s.command.DefaultCmd != nil && begun == "":
		return nil // the argument of the command whose word may be left out, such as a file
	}

	for _, child := range s.command.Children {
		if !child.Hidden {
			all = append(all, choice{child.Name, child.Help})
		}
	}
	if s.top() {
		all = append(all, choice{"help", "Print a page of the handbook, or the help of a command."})
	}
	return all
}

// values are the choices of a flag or an argument that takes one of a fixed set.
func values(v *kong.Value) (all []choice) {
	if v.Enum == "" {
		return nil
	}
	for _, t := range v.EnumSlice() {
		all = append(all, choice{t, ""})
	}
	return all
}

// flagsOf are the flags that a command takes, those of every command among them.
func flagsOf(command *kong.Node) (all []*kong.Flag) {
	for _, group := range command.AllFlags(true) {
		all = append(all, group...)
	}
	return all
}
