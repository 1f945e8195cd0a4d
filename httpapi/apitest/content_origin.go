package apitest

import (
	"strings"

	"kist/httpapi/web"
)

const ContentHost = "content.example.org"

// apart has content served from an origin of its own.
func Apart(c *web.Config) { c.Content = "https://" + ContentHost }

// follow asks the origin for content for what the base sends there.
func (g *Guest) Follow(sent *Answer) *Answer {
	g.Helper()
	to, ok := strings.CutPrefix(sent.Want(302).Header.Get("Location"), g.Server.Content)
	if !ok {
		g.Fatalf("it leads to %s", sent.Header.Get("Location"))
	}
	g.IsHostile("on the way", sent.Header)
	return g.Guest().See("GET", to, "Host", ContentHost) // with the cookies of that origin: none
}

// rawApart is the address of the content in a page, without the origin.
func RawApart(page *Answer) string {
	page.App.Helper()
	_, after, ok := strings.Cut(string(page.Body), `"https://`+ContentHost+"/x/")
	if !ok {
		page.App.Fatalf("the page has no address at the other origin: %s", CutText(page.Body))
	}
	at, _, _ := strings.Cut(after, `"`)
	return "/x/" + strings.ReplaceAll(at, "&amp;", "&")
}
