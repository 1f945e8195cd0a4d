package render

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

// guessed is how many bytes of a text are read to guess its language.
const guessed = 4 << 10

// guess is the language of code without one: by the program that the first line names, or by what is typical of a
// language. It is "" rather than wrong: chroma's own rules take any text with the word "var" for GDScript.
func guess(text string) string {
	head := text[:min(len(text), guessed)]
	if found := shebang.FindStringSubmatch(head); found != nil {
		name := cmp.Or(interpreters[found[1]], found[1])
		if grammars().byName[strings.ToLower(name)] != nil {
			return name
		}
	}

	data := []byte(strings.TrimSpace(text[:min(len(text), maxCode)]))
	if len(data) > 0 && (data[0] == '{' || data[0] == '[') && json.Valid(data) {
		return "json"
	}
	head = strings.TrimLeft(head, " \t\n")
	for _, s := range signs() {
		if s.first.MatchString(head) && (s.also == nil || s.also.MatchString(head)) {
			return s.language
		}
	}
	return ""
}

// shebang matches the first line of a script, with the name of its interpreter, without the version.
var shebang = regexp.MustCompile(`^#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+|\w+=\S*\s+)*(?:\S*/)?)?([A-Za-z][A-Za-z+-]*)`)

// interpreters have another name than their language.
var interpreters = map[string]string{
	"dash": "sh", "ash": "sh", "busybox": "sh", "node": "js", "nodejs": "js", "deno": "ts", "bun": "ts", "tsx": "ts",
	"ts-node": "ts", "Rscript": "r", "gawk": "awk", "mawk": "awk", "pwsh": "powershell", "tclsh": "tcl", "wish": "tcl",
	"expect": "tcl", "osascript": "applescript", "runhaskell": "haskell", "runghc": "haskell", "escript": "erlang",
	"guile": "scheme", "sbcl": "common-lisp", "luajit": "lua", "pypy": "python", "jruby": "ruby",
}

// A sign is typical of a language: both expressions match the beginning of a text.
type sign struct {
	language    string
	first, also *regexp.Regexp
}

// signs are tried in order. A line of prose matches none.
var signs = sync.OnceValue(func() (all []sign) {
	add := func(language, first, also string) {
		s := sign{language: language, first: regexp.MustCompile(first)}
		if also != "" {
			s.also = regexp.MustCompile(also)
		}
		all = append(all, s)
	}

	add("php", `^<\?php\b`, "")
	add("xml", `^<\?xml\b|^<svg\b`, "")
	add("html", `(?i)^<!doctype html|^<(?:html|head|body|div|p|a|span|table|ul|ol|section|form|script|style)\b`,
		`(?i)^<!doctype|</\w+>`)
	add("xml", `^<[A-Za-z][\w:.-]*(?:\s[^<>]*)?>`, `</[\w:.-]+>\s*$`)
	add("diff", `^diff --git |^--- \S.*\n\+\+\+ \S`, "")
	add("http", `^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) \S+ HTTP/\d|^HTTP/\d(?:\.\d)? \d{3}`, "")
	add("tex", `(?m)^\\(?:documentclass|usepackage|begin)\b`, "")
	add("docker", `(?m)^FROM \S+`, `(?m)^(?:RUN|COPY|ADD|CMD|ENTRYPOINT|WORKDIR|ENV) \S`)

	add("go", `(?m)^package \w+$`, `(?m)^(?:func|import|type|var|const)\b`)
	add("go", `(?m)^func (?:\(\w+ \*?\w+\) )?\w+\(.*\{$`, "")
	add("java", `(?m)^(?:import java|package [\w.]+;)|public static void main|System\.out\.print`, "")
	add("c#", `(?m)^using System|Console\.Write`, "")
	add("c++", `(?m)^\s*#include <[a-z_]+>`, "")
	add("c++", `(?m)^\s*#include\b`, `\bstd::|\btemplate\s*<|\bnamespace \w+`)
	add("c", `(?m)^\s*#include [<"]|^int main\(`, "")
	add("rust", `(?m)^\s*(?:pub(?:\(\w+\))? )?fn \w+`, `(?m)\{$|\{.*\}$`)
	add("rust", `(?m)^use (?:std|crate|super)::`, "")
	add("kotlin", `(?m)^(?:suspend |private |override )*fun \w+\(`, "")
	add("swift", `(?m)^import (?:Foundation|UIKit|SwiftUI)$|^func \w+\(.*\) -> \w+ \{$`, "")
	add("python", `(?m)^(?:async )?def \w+\(.*\).*:\s*(?:#.*)?$|^class \w+(?:\(.*\))?:\s*$|`+
		`^from [\w.]+ import \S|^if __name__ ==`, "")
	add("python", `(?m)^import [\w.]+(?: as \w+)?$`, `(?m)^\s*(?:print\(|\w+ = \w+[.(]|for .*:$)`)
	add("ruby", `(?m)^\s*(?:def |class |module |require ['"]|\w.* do(?: \|.*\|)?$)`, `(?m)^\s*end$`)
	add("lua", `(?m)^\s*local (?:function )?\w+ ?[=(,]`, "")
	add("ts", `(?m)^(?:export )?(?:interface \w+(?: extends \w+)? \{|type \w+ = )|`+
		`\(\w+\??: (?:string|number|boolean)\b`, "")
	add("js", `(?m)^(?:export )?(?:const|let|var) [\w{\[].* = |=> [{(\w]|\bconsole\.log\(|\bmodule\.exports\b|`+
		`^import .* from ['"]|^(?:export |async )*function \w*\(.*\) \{`, "")
	add("powershell", `(?m)^\s*(?:\$\w+ = )?(?:Get|Set|New|Remove|Write|Import|Invoke|Start|Stop)-[A-Z]\w+`, "")
	add("sql", `(?i)^(?:--.*\n\s*)*(?:select\b[^;]+\bfrom\b|insert into\b|update [\w.]+ set\b|alter table\b|`+
		`delete from\b|drop table\b|with \w+ as\b|create (?:or replace )?(?:table|view|index|database)\b)`,
		`;\s*(?:--.*)?(?:\n|$)|^(?:SELECT|INSERT|CREATE|UPDATE|ALTER|DELETE|DROP|WITH)\b`)

	add("nginx", `(?m)^\s*(?:server|upstream \w+|location [^{;]+)\s*\{$`, "")
	add("css", `(?m)^(?:@media|:root|[.#*]?[a-zA-Z][\w .#:>,*-]*)[^{};]*\{\s*(?:--)?[a-z-]+\s*:[^;{}]+;`, "")
	add("make", `(?m)^[\w./%-]+:(?: .*)?\n\t\S`, "")
	add("toml", `(?m)^\[[\w."-]+\]$`, `(?m)^[\w."-]+ = (?:["'\d\[{]|true|false)`)
	add("ini", `(?m)^\[[\w ."-]+\]$`, `(?m)^[\w.-]+ ?= ?\S`)
	add("bash", `(?m)^\s*(?:fi|done|esac)$|^set -[a-z]+|^export \w+=\S|^for \w+ in .*; ?do$|^if \[\[? `, "")
	add("bash", `(?m)^\$? ?(?:sudo|apt|apt-get|dnf|docker|git|curl|wget|npm|npx|pip3?|systemctl|kubectl|ssh|rsync|`+
		`chmod|mkdir|tar|find|grep|ffmpeg) \S`, ` --?[a-z]| && | \| |\$[({A-Za-z]`)
	add("yaml", `^(?:---\n|#.*\n|\n)*[\w.-]+:(?: .*)?\n`,
		`(?m)^[\w.-]+:\n(?:  ?[ \w."'/-]+:(?: |$)|\s*- [\w."'/-]+: )`)
	return all
})
