package upload

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

var Share = web.FormOp(303, share, 403, 503, 507).NotCounted()

// share saves what a share sheet sends. Browsers send it like a page of this server, not
// like another site.
func share(c *web.Request) error {
	if c.Caller == nil || !c.Caller.Key.Allows(people.ScopeRead) || !c.Caller.Key.Allows(people.ScopeWrite) {
		return session.Redirect(c, "/login?next="+url.QueryEscape("/?again=share")) // nothing of a stranger is read
	}
	if err := c.CountChanges(1); err != nil {
		return err
	}
	space, err := BudgetOf(c.Site, c.Owner())
	if err != nil {
		return err
	}
	came := NewIntake(c.Site)
	defer came.Close()
	fields, err := came.ReadForm(c, space)
	if err != nil {
		return err
	}
	said := func(name string) string { t, _ := fields[name].(string); return strings.TrimSpace(t) }
	if len(came.Files) > 0 {
		return keepSharedFiles(c, came, said("text"))
	}

	k, in := sharedRecord(said("title"), said("text"), said("url"))
	if in == nil {
		return session.Redirect(c, "/")
	}
	form := record.NewForm(k)
	if err := web.JoinProblems(field.Create(form, in)); err != nil {
		return err
	}
	var r *record.Record
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		r, err = catalog.Add(tx, catalog.Draft{Owner: c.Owner(), Kind: k, Form: form})
		return err
	}); err != nil {
		return err
	}
	return session.Redirect(c, "/"+k.Path+"/"+r.Slug+"?edit=1") // to add a tag
}

// sharedRecord is the record that a share without files becomes; nil if it is empty. With an
// address anywhere it is a bookmark. Each app puts the address into a place of its own, with
// words around it.
func sharedRecord(title, text, link string) (*record.Kind, field.Object) {
	if link != "" {
		text = strings.TrimSpace(strings.Replace(text, link, "", 1) + "\n" + link)
	}
	if title == "" && text == "" {
		return nil, nil
	}
	oneLine := func(t string) string {
		return record.Cut(strings.Join(strings.Fields(t), " "), record.MaxName)
	}
	note := field.Object{"title": oneLine(title), "content": text}

	before, address, after := cutAddress(text)
	first, inTitle, last := cutAddress(title)
	if inTitle != "" && (address == "" || address == inTitle) {
		address, title = inTitle, first+" "+last
	}
	if oneLine(title) == "" && !strings.Contains(before, "\n") {
		title, before = before, ""
	}
	description := strings.TrimSpace(before + "\n" + after)
	if address == "" || utf8.RuneCountInString(description) > record.MaxDescription {
		return record.Notes, note
	}
	return record.Bookmarks, field.Object{"url": address, "title": oneLine(title), "description": description}
}

// addresses are what may be addresses in a text. Blanks and quotes end them, and so do the signs of
// scripts that write no blanks.
var addresses = regexp.MustCompile(
	`(?i)https?://[^\s\p{Z}\p{Cc}<>"“”„«»「」『』【】（）《》〈〉，。！？；：、…]+`,
)

const quotes = `"'“”„‘’‚«»‹›`

// cutAddress cuts a text around the address in it: the one at its end, or else the first. Without
// one, before is the text. Quotes, brackets and full stops around the address go.
func cutAddress(text string) (before, address, after string) {
	start, end := -1, -1
	for _, at := range addresses.FindAllStringIndex(text, -1) {
		stop := at[0] + len(withoutEnd(text[at[0]:at[1]]))
		clean, err := field.CleanURL(text[at[0]:stop])
		if err != nil {
			continue
		}
		if rest := strings.TrimFunc(text[stop:], unicode.IsPunct); address == "" || rest == "" {
			address, start, end = clean, at[0], stop
		}
	}
	if address == "" {
		return text, "", ""
	}
	before = strings.TrimRight(text[:start], "([{<（【《〈「『*_~"+quotes)
	after = strings.TrimLeft(text[end:], ")]}>）】》〉」』*_~.,:;!?…，。！？；：、"+quotes)
	return strings.TrimRight(strings.TrimSpace(before), ":：–—-| "), address, strings.TrimSpace(after)
}

// withoutEnd cuts off an address what belongs to the sentence around it: signs, and brackets that
// the address has not opened.
func withoutEnd(address string) string {
	for address != "" {
		last, size := utf8.DecodeLastRuneInString(address)
		switch last {
		case '.', ',', ':', ';', '!', '?', '*', '_', '~', '\'', '’', '‘':
		case ')', ']', '}':
			open := map[rune]string{')': "(", ']': "[", '}': "{"}[last]
			if strings.Count(address, open) >= strings.Count(address, string(last)) {
				return address
			}
		default:
			return address
		}
		address = address[:len(address)-size]
	}
	return ""
}

func keepSharedFiles(c *web.Request, came *Intake, text string) error {
	form := record.NewForm(record.Files)
	form.Body.(*record.File).Description = record.Cut(text, record.MaxDescription)
	if err := came.Keep(c.R.Context()); err != nil {
		return err
	}
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		_, err := came.AddFiles(c, tx, form, "")
		return err
	}); err != nil {
		return err
	}
	came.Recorded()
	return session.Redirect(c, "/files")
}
