package admin_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/matryer/is"

	"kist/admin"
	"kist/embed"
)

// TestHandbook: kist help lists the pages, kist help NAME prints one, and the name
// of a command is never that of a page.
func TestHandbook(t *testing.T) {
	is := is.New(t)
	p := newPlace(t)
	list := p.must("help")
	parser, err := kong.New(new(struct{ admin.Commands }), kong.Vars{"listen": "127.0.0.1:7080"})
	is.NoErr(err)
	for _, topic := range embed.Topics() {
		is.True(regexp.MustCompile(`(?m)^  ` + topic.Name + ` +` + regexp.QuoteMeta(topic.Summary) + `$`).MatchString(list))
		r := p.run("", "help", topic.Name)
		is.Equal(r, result{0, topic.Text, ""})
		is.True(topic.Name != "serve" && !slices.ContainsFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == topic.Name }))
	}
	is.Equal(p.run("", "help", "backup"), p.run("", "backup", "--help"))
	is.True(!strings.Contains(p.must("help", "backup"), "handbook"))
	is.Equal(p.run("", "help", "nonsense").code, 2)
	is.Equal(p.run("", "help", "limits", "search").code, 2)
}
