package render

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/dlclark/regexp2/v2"

	"kist/blobs/flight"
)

// A grammar is a language that can be highlighted: one of chroma's or, with rules, one of ours.
type grammar struct {
	Name     string
	Aliases  []string
	Files    []string // patterns for path.Match
	Priority float32
	lexer    *chroma.RegexLexer
	rules    func() chroma.Rules
}

type library struct {
	byName map[string]*grammar // folded names and aliases
	all    []*grammar
}

// grammars is made when code is first shown. It leaves out lexers of chroma that combine others in Go
// code, because their steps cannot be guarded.
var grammars = sync.OnceValue(func() *library {
	l := &library{byName: make(map[string]*grammar), all: slices.Clone(ours)}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		if lexer, ok := lexer.(*chroma.RegexLexer); ok {
			c := lexer.Config()
			l.all = append(l.all, &grammar{
				Name: c.Name, Aliases: c.Aliases, Files: slices.Concat(c.Filenames, c.AliasFilenames),
				Priority: cmp.Or(c.Priority, 1), lexer: lexer,
			})
		}
	}
	for _, g := range l.all {
		for _, name := range append([]string{g.Name}, g.Aliases...) {
			name = strings.ToLower(name)
			if other := l.byName[name]; other == nil || other.Priority < g.Priority {
				l.byName[name] = g
			}
		}
	}
	regexp2.SetTimeoutCheckPeriod(maxMatch)
	return l
})

var errUnknown = errors.New("unknown language")

// find is the grammar for a language or else for the file's name; otherwise errUnknown.
func find(language, filename string) (*grammar, error) {
	l := grammars()
	language = strings.ToLower(strings.TrimSpace(language))
	if g := l.byName[language]; g != nil {
		return g, nil
	}
	if g := l.match("file." + strings.TrimPrefix(language, ".")); g != nil && language != "" {
		return g, nil
	}
	if g := l.match(path.Base(filename)); g != nil && filename != "" {
		return g, nil
	}
	return nil, errUnknown
}

// match is the grammar with a pattern that matches the name of a file, that with the highest priority
// if there are several, or nil.
func (l *library) match(name string) *grammar {
	var best *grammar
	for _, pattern := range []string{name, strings.ToLower(name)} {
		for _, g := range l.all {
			for _, glob := range g.Files {
				// chroma has no bad patterns.
				if ok, _ := path.Match(glob, pattern); ok && (best == nil || best.Priority < g.Priority) {
					best = g
				}
			}
		}
		if best != nil {
			break
		}
	}
	return best
}

// maxMatch is the time limit for one regular expression. chroma's own limit is 250 ms for each of the
// dozens that are tried at every character.
const maxMatch = 10 * time.Millisecond

// errGivenUp says that the text should be shown as plain text.
var errGivenUp = errors.New("not highlighted")

// ErrLate says that a text could not be read in time.
var ErrLate = fmt.Errorf("%w: it takes too long", errGivenUp)

// turn is taken while a text is read. Only one text is read at a time, so that the worst text keeps one
// processor busy for at most maxTime. It also guards reading and compiled.
var turn = make(flight.Turns, 1)

// reading is what the text that is being read has left.
var reading struct {
	deadline time.Time
	bytes    int // of text for nested grammars
}

// compiled are the grammars used so far, each with those that it uses. The rules of one take up to a
// megabyte.
var compiled = make(map[*grammar]chroma.Lexer)

const maxCompiled = 24

// tokens cuts clean text into tokens, which together are the same text. It gives up at the deadline or
// shortly after it: the longest step is the rules of one state, tried at one character.
func (g *grammar) tokens(text string, deadline time.Time) (tokens []chroma.Token, err error) {
	wait, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if turn.Take(wait) != nil {
		return nil, errGivenUp
	}
	defer turn.Give()

	reading.deadline, reading.bytes = deadline, 8*len(text)+4096
	lexer, ok := compiled[g]
	if !ok {
		lexer, err = g.load()
		if err != nil {
			return nil, err
		}
		if len(compiled) >= maxCompiled {
			clear(compiled)
		}
		compiled[g] = lexer
	}
	defer func() {
		// chroma panics on errors in an iterator. We don't know which grammar does that on which
		// text, so all panics count.
		if p := recover(); p != nil {
			tokens, err = nil, fmt.Errorf("%w: %v", errGivenUp, p)
		}
	}()
	// Many rules wait for the end of a line.
	next, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, text+"\n")
	if err != nil {
		return nil, fmt.Errorf("render: grammar %s: %w", g.Name, err)
	}
	rest := text + "\n"
	for t := next(); t != chroma.EOF; t = next() {
		rest, ok = strings.CutPrefix(rest, t.Value)
		if !ok || time.Now().After(deadline) {
			return nil, errGivenUp
		}
		if t.Value == "" {
			continue
		}
		if n := len(tokens); n > 0 && tokens[n-1].Type == t.Type && len(tokens[n-1].Value) < 4096 {
			tokens[n-1].Value += t.Value
		} else {
			tokens = append(tokens, t)
		}
	}
	if rest != "" || len(tokens) == 0 {
		return nil, errGivenUp
	}
	last := &tokens[len(tokens)-1].Value
	*last = strings.TrimSuffix(*last, "\n")
	return tokens, nil
}

// spend is called at every step inside a grammar. It panics when the grammar has to stop; tokens
// recovers.
func spend(bytes int) {
	reading.bytes -= bytes
	if reading.bytes < 0 || time.Now().After(reading.deadline) {
		panic(errGivenUp)
	}
}

// using matches the names of the grammars that a grammar needs.
var using = regexp.MustCompile(`<using lexer="([^"]+)"`)

// load reads the grammar and those that it uses into a separate registry.
func (g *grammar) load() (chroma.Lexer, error) {
	l := grammars()
	registry := chroma.NewLexerRegistry()
	todo, done := []*grammar{g}, make(map[*grammar]bool)
	var first chroma.Lexer
	for len(todo) > 0 {
		g := todo[0]
		todo = todo[1:]
		if done[g] {
			continue
		}
		done[g] = true
		lexer, uses, err := g.read()
		if err != nil {
			return nil, fmt.Errorf("render: grammar %s: %w", g.Name, err)
		}
		if first == nil {
			first = lexer
		}
		registry.Register(lexer)
		for _, name := range uses {
			if used := l.byName[strings.ToLower(name)]; used != nil {
				todo = append(todo, used)
			}
		}
	}
	return first, nil
}

// read makes a grammar's lexer with guards at each step. uses are the names of the grammars that it
// needs.
func (g *grammar) read() (lexer chroma.Lexer, uses []string, err error) {
	// Names for the registry. There are no patterns, because a text could choose a grammar by a
	// file name with them.
	config := &chroma.Config{Name: g.Name, Aliases: g.Aliases}
	var rules chroma.Rules
	if g.rules != nil {
		rules = g.rules()
	} else {
		// A separate copy, in the only form that names the grammars it uses.
		text, err := chroma.Marshal(g.lexer)
		if errors.Is(err, chroma.ErrNotSerialisable) {
			return nil, nil, errGivenUp // one of its rules is a Go function
		}
		if err != nil {
			return nil, nil, err
		}
		for _, found := range using.FindAllSubmatch(text, -1) {
			uses = append(uses, string(found[1]))
		}
		var parsed struct {
			Config chroma.Config `xml:"config"`
			Rules  chroma.Rules  `xml:"rules"`
		}
		if err := xml.Unmarshal(text, &parsed); err != nil {
			return nil, nil, err
		}
		rules = parsed.Rules
		config.CaseInsensitive, config.DotAll = parsed.Config.CaseInsensitive, parsed.Config.DotAll
		config.NotMultiline, config.EnsureNL = parsed.Config.NotMultiline, parsed.Config.EnsureNL
	}
	for _, state := range rules {
		for i := range state {
			guardRule(&state[i])
		}
	}
	rules[hastyState] = []chroma.Rule{{Mutator: new(hasty)}}
	lexer, err = chroma.NewLexer(config, func() chroma.Rules { return rules })
	return lexer, uses, err
}

// guardRule makes a rule call spend. Rules that only name a type need no guard, because the loop in
// tokens sees the tokens that they make.
func guardRule(r *chroma.Rule) {
	if _, static := r.Type.(chroma.TokenType); r.Type != nil && !static {
		r.Type = guardedEmitter{r.Type}
	}
	if _, static := r.Mutator.(chroma.LexerMutator); !static && (r.Mutator != nil || r.Type == nil) {
		r.Mutator = guardedMutator{r.Mutator}
	}
}

type guardedEmitter struct{ chroma.Emitter }

func (e guardedEmitter) Emit(groups []string, s *chroma.LexerState) chroma.Iterator {
	spend(len(groups[0]) + 16)
	return e.Emitter.Emit(groups, s)
}

type guardedMutator struct{ inner chroma.Mutator }

func (m guardedMutator) Mutate(s *chroma.LexerState) error {
	spend(0)
	if m.inner == nil {
		return nil
	}
	return m.inner.Mutate(s)
}

// hasty sets the time limit of a lexer's regular expressions when they are compiled, then removes itself.
type hasty struct{ _ byte } // not empty, because chroma distinguishes mutators by address

const hastyState = "kist: hasty"

func (*hasty) Mutate(*chroma.LexerState) error { return errors.ErrUnsupported }

func (*hasty) MutateLexer(rules chroma.CompiledRules, state string, _ int) error {
	for _, all := range rules {
		for _, rule := range all {
			rule.Regexp.MatchTimeout = maxMatch
		}
	}
	delete(rules, state)
	return nil
}
