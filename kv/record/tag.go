package record

import (
	"hash/fnv"
	"strings"
	"time"

	"kist/kv/field"
)

// Tag is an owner's label for all kinds of content.
type Tag struct {
	ID      ID        `json:"ID"`
	Owner   ID        `json:"Owner"`
	Name    string    `json:"Name"`
	Color   string    `json:"Color"`
	Created time.Time `json:"Created"`
}

// labelColors can be told from a light and from a dark page.
var labelColors = [...]string{
	"#D34141", "#BD582C", "#A36926", "#8C7321", "#667F1E", "#208820", "#1F8653", "#1F8470",
	"#208289", "#277DA8", "#3775D0", "#626ADA", "#835FD9", "#A74BD5", "#C82FBE", "#D13980",
}

// ColorOf is the colour of a tag or folder of this name unless somebody chose another. It ignores case.
func ColorOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(name))) // cannot fail
	return labelColors[h.Sum32()%uint32(len(labelColors))]
}

// Folder is a folder of files.
type Folder struct {
	ID      ID        `json:"ID"`
	Owner   ID        `json:"Owner"`
	Name    string    `json:"Name"`
	Color   string    `json:"Color"`
	Created time.Time `json:"Created"`
}

// LabelForm is a caller's input for a tag or a folder.
type LabelForm struct {
	Name, Color string
	rule        field.Rule
	max         int
}

// TagForm and FolderForm are the forms of tags and folders.
func TagForm(t Tag) *LabelForm { return &LabelForm{t.Name, t.Color, CleanTag, MaxTag} }

// FolderForm is the form of a folder.
func FolderForm(f Folder) *LabelForm {
	return &LabelForm{f.Name, f.Color, CleanName, MaxName}
}

// Fields is the shape of a create and a patch.
func (f *LabelForm) Fields(s *field.Set) {
	s.Ruled("name", &f.Name, f.rule, "", f.max, field.Required, field.Filled).Says("Name; unique, ignoring case.", `"travel"`)
	s.Ruled("color", &f.Color, CleanColor, `^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$`, 7).Says("Colour; # may be left out and three digits stand for six.", `"#3B82F6"`)
}
