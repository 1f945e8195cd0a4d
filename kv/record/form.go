package record

import (
	"errors"
	"time"

	"kist/kv/field"
)

// A Form is a caller's input for a record. Reading input into the form of a
// stored record changes only what the input names.
type Form struct {
	Slug             string // "" keeps the slug, or generates one
	Public, Favorite bool
	Logged           bool      // see Share
	KeepMetadata     bool      // see Record
	Attached         bool      // see Record
	Taken            time.Time // of a stored file: see Photo
	Password         field.Secret
	Limit            int64
	AtLimit          Action
	Expires          time.Time
	AtEnd            EndAction
	Body             Body

	// Tags by name replace the record's tags; nil keeps them. AddTags and
	// DropTags are ids. NewTags are names of further tags to add, and OldTags of
	// tags to remove.
	Tags, NewTags, OldTags []string
	AddTags, DropTags      []string
	// Folder is a file's folder. FolderName, if not "", names it instead; a missing
	// folder is created.
	Folder     ID
	FolderName string

	Source  Source // of a collection, if Sourced
	Sourced bool

	// For the versions of a text: By names the browser, key or device of a change, Seen says whether
	// it knew the text that it replaces, and KeepVersion asks to keep that. Ticker is the account that
	// sets a task and changes nothing else.
	By                string
	Seen, KeepVersion bool
	Ticker            ID

	kind      *Kind
	published bool // the input of a patch sets the visibility
	photo     bool // Taken is that of a record
}

// NewForm is the empty form of a kind.
func NewForm(k *Kind) *Form { return &Form{Body: k.New(), kind: k, AtEnd: HideAtEnd} }

// Form is the form of a stored record with its values.
func (r *Record) Form() (*Form, error) {
	b, err := r.Decode()
	if err != nil {
		return nil, err
	}
	f := &Form{
		Slug: r.Slug, Public: r.Public, Favorite: r.Favorite, Logged: r.Logged, Limit: r.Limit, AtLimit: r.AtLimit,
		Expires: r.Expires, AtEnd: endAction(r.EndDeletes), Folder: r.Folder, Body: b, kind: r.Kind, KeepMetadata: r.KeepMetadata,
		Attached: r.Attached,
	}
	if r.Bytes != nil {
		f.Taken, f.photo = r.Bytes.Photo.Taken, true
	}
	return f, nil
}

// Patch reads the input of a patch into the form. Making a private item private
// again has a meaning: its owner wants it private, whatever its limit did.
func (f *Form) Patch(in field.Object) error {
	if err := f.PatchAs(Edit{f}, in); err != nil {
		return err
	}
	if in["slug"] != nil && in["newSlug"] != nil && f.kind == Files {
		return field.Problems{"slug": "cannot be given together with newSlug"}
	}
	return nil
}

// PatchAs is Patch of a part of the form: shape has some of its fields.
func (f *Form) PatchAs(shape field.Shaped, in field.Object) error {
	_, f.published = in["isPublic"]
	return field.Patch(shape, in)
}

// Fields is the shape of a create, for all kinds except files.
func (f *Form) Fields(s *field.Set) {
	f.Body.Fields(s)
	if f.kind == Collections {
		s.Nested("source", &f.Source, &f.Sourced, f.Source.check).
			Says("What is in it: {\"folderId\"}, {\"tag\"} or {\"items\"}. Without any of them, items can be added to it.",
				`{"items":[]}`)
	}
	f.slug(s, "slug")
	f.sharing(s)
	f.tags(s)
}

func (f *Form) slug(s *field.Set, name string) {
	s.Ruled(name, &f.Slug, CleanSlug, SlugPattern, MaxSlug).
		Says("Public identifier, unique among all items; generated if absent.", `"summer-24"`)
}

func (f *Form) tags(s *field.Set) {
	s.Texts("tags", &f.Tags, CleanTag, MaxTags, MaxTag).
		Says("Tag names; unknown tags are created.", `["travel","2024"]`)
}

// TagChanges binds the fields that add tags and take some away.
func (f *Form) TagChanges(s *field.Set) {
	s.Texts("addTags", &f.NewTags, CleanTag, MaxTags, MaxTag).
		Says("Names of tags to add to those that it has; unknown tags are created.", `["travel"]`)
	s.Texts("removeTags", &f.OldTags, CleanTag, MaxTags, MaxTag).Says("Names of tags to take away.", `[]`)
}

func (f *Form) sharing(s *field.Set) {
	s.Bool("isPublic", &f.Public).Says("Whether others can see it.", `true`)
	s.Bool("isFavorite", &f.Favorite).Says("Marks a favourite.", `false`)
	s.Secret("password", &f.Password).Says("Password that visitors need; \"\" removes it.", `"open sesame"`)
	s.Count(f.kind.Limit, &f.Limit).Says("How many times others may open it; null is no limit.", `10`)
	switch f.kind.Limit { // a limit that is ignored would be no limit
	case "maxClicks":
		s.Refused("maxViews", "is not for short links; use maxClicks")
	case "maxViews":
		s.Refused("maxClicks", "is for short links; use maxViews")
	}
	field.MaybeChoice(s, "maxViewsAction", &f.AtLimit, Actions).
		Says("What happens when the limit is reached; without it, make_private.", `"make_private"`)
	s.Time("expiresAt", &f.Expires).Says("When it expires for others; null is never. A date alone is the end of that day in UTC.", `"2030-01-01T00:00:00.000Z"`)
	field.Choice(s, "expiryAction", &f.AtEnd, EndActions).
		Says("What happens when it expires: hide, or delete for good.", `"hide"`)
	s.Bool("logVisits", &f.Logged).Says("Whether its owner can see each visit. Its page says so to visitors.", `false`)
	if f.kind == Files {
		s.Not("stripMetadata", &f.KeepMetadata).
			Says("Whether visitors get a picture or film without its metadata; true unless said.", `true`)
	}
}

// Upload is the shape of the fields of an upload beside the files.
type Upload struct{ *Form }

func (u Upload) Fields(s *field.Set) {
	b := u.Body.(*File)
	s.Ruled("name", &b.OriginalName, CleanFileName, "", field.MaxURL).
		Says("A name for the file instead of the part's own.", `"holiday.jpg"`)
	s.Text("description", &b.Description, MaxDescription).Says("Free text.", `"Beach at noon"`)
	s.Bool("attach", &u.Attached).
		Says("Makes it part of the texts that will show it: lists of files leave it out, and it is deleted and restored "+
			"with them.", `false`)
	u.slug(s, "slug")
	s.ID("folderId", &u.Folder).Says("Folder to put it in.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	u.folderName(s)
	s.IDs("tagIds", &u.AddTags, MaxTags).
		Says("Tags to attach, by id (a JSON array).", `["01890a5d-ac96-774b-bcce-b302099a8057"]`)
	s.Texts("newTags", &u.NewTags, CleanTag, MaxTags, MaxTag).
		Says("Tags to attach, by name, separated by commas.", `["beach","2024"]`)
	u.tags(s)
	u.sharing(s)
}

// Edit is the shape of a patch.
type Edit struct{ *Form }

func (e Edit) Fields(s *field.Set) {
	if e.kind == Files {
		e.Body.Fields(s)
		e.slug(s, "slug")
		e.slug(s, "newSlug")
		s.Time("takenAt", &e.Taken).
			Says("When it was taken; null is not known. A date alone is the end of that day in UTC.",
				`"2026-01-02T03:04:05.678Z"`)
		s.ID("folderId", &e.Folder).Says("Folder to put it in; null takes it out.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
		e.folderName(s)
		s.IDs("addTagIds", &e.AddTags, MaxTags).Says("Tags to attach, by id.", `["01890a5d-ac96-774b-bcce-b302099a8057"]`)
		s.IDs("removeTagIds", &e.DropTags, MaxTags).Says("Tags to detach, by id.", `[]`)
		e.tags(s)
		e.sharing(s)
	} else {
		e.Form.Fields(s)
	}
	e.TagChanges(s)
	if e.kind.Versioned() {
		s.Bool("keepVersion", &e.KeepVersion, field.WriteOnly).
			Says("Keeps the text that this replaces as a version, even if the same writer wrote it "+
				"within the last five minutes.", `false`)
	}
}

func (f *Form) folderName(s *field.Set) {
	s.Name("folderName", &f.FolderName, MaxName).Says("Folder by name; created if it does not exist.", `"Holidays"`)
}

// CheckNew says what is wrong with the form of a new record at the given
// instant, in addition to the checks of each field.
func (f *Form) CheckNew(now time.Time) error {
	if err := CheckEnd(f.Expires, now); err != nil {
		return field.Problems{"expiresAt": err.Error()}
	}
	return nil
}

// CheckEnd is the rule for the expiry of a new record: after now, or never,
// which is the zero time.
func CheckEnd(at, now time.Time) error {
	if !at.IsZero() && !at.After(now) {
		return errors.New("must be in the future")
	}
	return nil
}

// Past is the history of an imported record. The zero value is for a new record.
type Past struct {
	Created, Updated time.Time // zero: now
	Taken            time.Time // of a file; zero: as its bytes say
	Password         string    // hash; "" means none
	Views, Used      int64     // all views, and those against the limit
	Reached          bool      // its limit made it private
}

// Fill copies the form into r, except tags, folder and password, which need the
// store. It reports whether the count of the limit starts again. It does when
// the item is published again, and when it gets a limit. An item that loses its
// limit stays as private as the limit made it, with no views counted against
// it.
func (f *Form) Fill(r *Record) (restart bool) {
	if f.Slug != "" {
		r.Slug = f.Slug
	}
	if f.published || f.Public != r.Public {
		restart = r.Publish(f.Public)
	}
	r.Reached = r.Reached && f.Limit > 0
	restart = restart || r.Limit == 0 && f.Limit > 0
	r.Ended = r.Ended && f.Expires.Equal(r.Expires)
	r.Favorite, r.Logged, r.Limit, r.AtLimit, r.Expires = f.Favorite, f.Logged, f.Limit, f.AtLimit, f.Expires
	r.EndDeletes, r.KeepMetadata, r.Attached = f.AtEnd == DeleteAtEnd, f.KeepMetadata, f.Attached
	if f.photo && r.Bytes != nil {
		r.Bytes.Photo.Taken = f.Taken
	}
	r.SetBody(f.Body)
	return restart
}
