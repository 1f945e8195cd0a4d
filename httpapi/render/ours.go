package render

import "github.com/alecthomas/chroma/v2"

// ours are grammars for languages whose grammar in chroma is Go code, which cannot be guarded.
var ours = []*grammar{
	{Name: "Go", Aliases: []string{"golang"}, Files: []string{"*.go"}, Priority: 1, rules: goRules},
	{
		Name: "Markdown", Aliases: []string{"md", "mkd"}, Files: []string{"*.md", "*.mkd", "*.markdown"}, Priority: 1,
		rules: markdownRules,
	},
	{Name: "HTTP", Files: []string{"*.http"}, Priority: 1, rules: httpRules},
}

func goRules() chroma.Rules {
	return chroma.Rules{"root": {
		{Pattern: `\s+`, Type: chroma.Text},
		{Pattern: `//[^\n]*|/\*[\s\S]*?(?:\*/|\z)`, Type: chroma.Comment},
		{Pattern: `"`, Type: chroma.String, Mutator: chroma.Push("string")},
		{Pattern: "`[^`]*`?", Type: chroma.String},
		{Pattern: `'(?:\\[^\n]|[^'\\\n])*'?`, Type: chroma.String},
		{
			Pattern: `(?:0[xX][\da-fA-F_.]+(?:[pP][+-]?\d+)?|0[bBoO][0-7_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)i?`,
			Type:    chroma.Number,
		},
		{Pattern: chroma.Words(``, `\b`, "break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go", "goto", "if",
			"import", "interface", "map", "package", "range", "return", "select", "struct", "switch", "type", "var"), Type: chroma.Keyword},
		{Pattern: chroma.Words(``, `\b`, "true", "false", "nil", "iota"), Type: chroma.KeywordConstant},
		{Pattern: chroma.Words(``, `\b(?!\()`, "any", "bool", "byte", "comparable", "complex64", "complex128", "error", "float32", "float64", "int", "int8", "int16", "int32",
			"int64", "rune", "string", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr"), Type: chroma.KeywordType},
		{Pattern: chroma.Words(``, `\b(?=\()`, "append", "cap", "clear", "close", "complex", "copy", "delete", "imag", "len", "make", "max", "min", "new", "panic", "print",
			"println", "real", "recover"), Type: chroma.NameBuiltin},
		{Pattern: `[\p{L}_][\p{L}\p{N}_]*(?=\()`, Type: chroma.NameFunction},
		{Pattern: `[\p{L}_][\p{L}\p{N}_]*`, Type: chroma.Name},
		{Pattern: `[^\s\p{L}\p{N}_"'` + "`" + `]`, Type: chroma.Punctuation},
	}, "string": {
		{Pattern: `\\(?:[abfnrtv\\"]|[0-7]{3}|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8})`, Type: chroma.StringEscape},
		{Pattern: `%[-+# 0]*[\d*]*(?:\.[\d*]+)?(?:\[\d+\])?[a-zA-Z%]`, Type: chroma.StringInterpol},
		{Pattern: `[^"\\%\n]+|[\\%]`, Type: chroma.String},
		{Pattern: `"|(?=\n)`, Type: chroma.String, Mutator: chroma.Pop(1)},
	}}
}

func markdownRules() chroma.Rules {
	return chroma.Rules{"root": {
		{Pattern: `^#{1,6}[ \t][^\n]*`, Type: chroma.GenericHeading},
		{Pattern: "^(?:```|~~~)[^\\n]*\\n[\\s\\S]*?(?:^(?:```|~~~)[ \\t]*$|\\z)", Type: chroma.String},
		{Pattern: `^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\])?`, Type: chroma.Keyword},
		{Pattern: `^[ \t]*>[^\n]*`, Type: chroma.Comment},
		{Pattern: "`[^`\\n]+`", Type: chroma.String},
		{Pattern: `\*\*[^*\n]+\*\*|__[^_\n]+__`, Type: chroma.GenericStrong},
		{Pattern: `\*[^*\s][^*\n]*\*`, Type: chroma.GenericEmph},
		{
			Pattern: `(!?\[)([^\]\n]*)(\]\()([^)\n]*)(\))`,
			Type:    chroma.ByGroups(chroma.Text, chroma.NameTag, chroma.Text, chroma.NameAttribute, chroma.Text),
		},
		{Pattern: `https?://[^\s<>]+`, Type: chroma.NameAttribute},
		{Pattern: `\\[^\n]`, Type: chroma.StringEscape},
		{Pattern: "[^\\n`*_!\\[h\\\\]+|[\\s\\S]", Type: chroma.Text},
	}}
}

func httpRules() chroma.Rules {
	return chroma.Rules{"root": {
		{
			Pattern: `([A-Z]+)( +)([^ \n]+)( +HTTP/[\d.]+)?(\n)`,
			Type:    chroma.ByGroups(chroma.Keyword, chroma.Text, chroma.Name, chroma.Comment, chroma.Text),
			Mutator: chroma.Push("head"),
		},
		{
			Pattern: `(HTTP/[\d.]+)( +)(\d{3})([^\n]*\n)`,
			Type:    chroma.ByGroups(chroma.Keyword, chroma.Text, chroma.Number, chroma.Text), Mutator: chroma.Push("head"),
		},
		{Pattern: `[^\n]*\n`, Type: chroma.Text},
	}, "head": {
		{Pattern: `([^:\s]+)(:)([^\n]*\n)`, Type: chroma.ByGroups(chroma.NameAttribute, chroma.Text, chroma.String)},
		{Pattern: `\n`, Type: chroma.Text, Mutator: chroma.Push("body")},
		{Pattern: `[^\n]+\n`, Type: chroma.Text},
	}, "body": {
		{Pattern: `[\s\S]+`, Type: chroma.Text},
	}}
}
