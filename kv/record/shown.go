package record

import (
	"cmp"
	"strconv"
	"time"

	"kist/kv/field"
)

// Shown is a record as its owner or a visitor sees it, with additional data from the
// store. Its shape depends on the kind, on Visitor and on ByMember, which must be set before
// the fields are bound. The rest may change between uses of the set.
type Shown struct {
	Record
	Views      int64
	Used       int64 // views that count against Limit
	TagList    []Tag // in the order of Record.Tags
	FolderName string
	Page       Page // of a bookmark; the zero Page is unknown
	Collected  Collected
	NeverStrip bool   // the settings leave metadata in all files
	Visitor    bool   // leaves out what only the owner may see
	ByMember   bool   // likewise, as null: somebody else reads it, through a collection
	Reader     Reader // with ByMember
	Base       string // absolute address of the server, without a slash at the end
}

// Reader is how a person reads what another owns.
type Reader struct {
	Owner   Person
	Role    Role
	Through string // slug of the collection; "" if the record is the collection
}

// Person is an account of the server, as other people see it.
type Person struct {
	ID          ID     `json:"ID"`
	Name        string `json:"Name"`
	DisplayName string `json:"DisplayName"`
}

func (p *Person) Fields(s *field.Set) {
	s.ID("id", &p.ID, field.Always).Says("Id of the account.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Name("name", &p.Name, MaxName).Says("Its username.", `"ann"`)
	s.Text("displayName", &p.DisplayName, MaxName).Says("The name that others read; empty without one.", `"Ann"`)
}

// Member is a person who has a part in a collection of another.
type Member struct {
	Person
	Role  Role      `json:"Role"`
	Since time.Time `json:"Since"`
}

func (m *Member) Fields(s *field.Set) {
	s.ID("userId", &m.ID, field.Always).Says("Id of the account.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Name("name", &m.Name, MaxName).Says("Its username.", `"bob"`)
	s.Text("displayName", &m.DisplayName, MaxName).
		Says("The name that others read; empty without one.", `"Bob"`)
	field.Choice(s, "role", &m.Role, MemberRoles).Says("What the person may do.", `"add"`)
	s.Time("since", &m.Since, field.ReadOnly, field.Always).
		Says("Since when the person is a member.", `"2026-01-02T03:04:05.678Z"`)
}

// ForExport binds the fields that do not refer to ids.
func (b *Collection) ForExport(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName)
	f.Text("description", &b.Description, MaxDescription)
	field.Choice(f, "sort", &b.Sort, Arrangements)
	f.Bool("allowDownload", &b.Download)
	f.Bool("showNames", &b.ShowNames)
}

// Collected is what the store adds to a collection.
type Collected struct {
	Collection
	Inside
}

// MostPictures is how many pictures stand for a collection.
const MostPictures = 4

// Inside is what is in a collection.
type Inside struct {
	TagName string `json:"TagName,omitempty"` // of the tag that it shows
	Items   int64  `json:"Items"`             // what visitors see
	Bytes   int64  `json:"Bytes"`
	LeftOut int64  `json:"LeftOut"` // items that they do not see
	// Pictures are up to MostPictures of the items that visitors see and that have a picture, the cover first.
	Pictures []ID `json:"Pictures,omitempty"`

	Members []Member `json:"Members,omitempty"`
}

// Fields is the shape of a record in an answer. What a member may not know is null, so that it has the same members.
func (v *Shown) Fields(s *field.Set) {
	k := v.Kind
	hidden := v.ByMember && k != Collections // of a collection its members know the address and who else sees it
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Permanent id.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Shown("kind", field.Schema{Type: "string", Enum: []string{k.Name}}, func(dst []byte) []byte {
		return field.AppendString(dst, v.Kind.Name)
	}).Says("Kind of the item.", strconv.Quote(k.Name))
	if hidden {
		null(s, "slug", "string")
	} else {
		s.Ruled("slug", &v.Slug, CleanSlug, SlugPattern, MaxSlug).
			Says("Public identifier, unique among all items.", `"summer-24"`)
	}
	if k == Collections {
		v.collectionFields(s)
	} else {
		s.Splice(&v.Body, k.New())
	}
	if hidden {
		null(s, "isPublic", "boolean")
	} else {
		s.Bool("isPublic", &v.Public).Says("Whether others can see it.", `true`)
	}
	if v.ByMember {
		v.memberFields(s)
	} else {
		v.shareFields(s)
	}
	s.Time("createdAt", &v.Created, field.ReadOnly, field.Always).
		Says("When it was created.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("updatedAt", &v.Updated, field.ReadOnly, field.Always).
		Says("When it was last changed.", `"2026-01-02T03:04:05.678Z"`)
	if k == Bookmarks && !v.Visitor {
		v.pageFields(s)
	}
	if k == Files && !v.Visitor {
		v.metadataFields(s)
	}
	address := field.Schema{Type: "string", Format: "uri"}
	if k != Bookmarks { // theirs is the address of the page that is kept
		s.Shown("url", address, v.AppendURL).Says("Address of the item for others.", `"https://kist.example.org/v/summer-24"`)
	}
	page := func(dst []byte) []byte { return v.appendURL(dst, "/v/") }
	s.Shown("shareUrl", address, page).Says("Page that shows the item to others.", `"https://kist.example.org/v/summer-24"`)
	if k == Files {
		s.Shown("viewUrl", address, page).Says("As shareUrl.", `"https://kist.example.org/v/summer-24"`)
	}
	if v.ByMember {
		v.readerFields(s)
	}
}

// null binds a member of an answer whose value the reader may not know.
func null(s *field.Set, name, kind string) {
	schema := field.Schema{Type: kind, Nullable: true}
	s.Shown(name, schema, func(dst []byte) []byte { return append(dst, "null"...) }).
		Says("Null for those who are not its owner.", "null")
}

// shareFields bind the conditions for visitors and what the owner has noted.
func (v *Shown) shareFields(s *field.Set) {
	k := v.Kind
	if !v.Visitor {
		s.Bool("isFavorite", &v.Favorite).Says("Whether it is a favourite.", `false`)
	}
	s.Shown("hasPassword", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return strconv.AppendBool(dst, v.Password != "")
	}).Says("Whether visitors need a password.", `false`)
	if k == Files {
		folder := field.Schema{Type: "object", Nullable: true, Members: field.Of(&FolderRef{}).Fields()}
		s.Shown("folder", folder, v.appendFolder).
			Says("The folder that the file is in; null when it is in no folder.", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"Holidays"}`)
		tag := field.ObjectOf(&TagRef{})
		s.Shown("tags", field.Schema{Type: "array", Items: &tag}, v.appendTagRefs).
			Says("Its tags.", `[{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"travel","color":"#3B82F6"}]`)
	} else {
		s.Shown("tags", field.Schema{Type: "array", Items: &field.Schema{Type: "string"}}, v.AppendTagNames).
			Says("Names of its tags.", `["travel","2024"]`)
	}
	s.Number(k.Counter, &v.Views, 0, 1<<53, field.ReadOnly, field.Counter).
		Says("How many times others have opened it.", `3`)
	s.Number("viewsOfLimit", &v.Used, 0, 1<<53, field.ReadOnly, field.Counter).
		Says("How many of these count against the limit. It starts at 0 when the item gets a limit.", `1`)
	s.Count(k.Limit, &v.Limit).Says("How many times others may open it; null is no limit.", `10`)
	field.MaybeChoice(s, "maxViewsAction", &v.AtLimit, Actions).
		Says("What happens when the limit is reached; null is make_private.", `"make_private"`)
	s.Time("expiresAt", &v.Expires).Says("When it expires for others; null is never.", `"2030-01-01T00:00:00.000Z"`)
	s.Shown("expiryAction", field.Schema{Type: "string", Enum: field.Words(EndActions)}, func(dst []byte) []byte {
		return field.AppendString(dst, string(endAction(v.EndDeletes)))
	}).Says("What happens when it expires: it is hidden, or deleted for good.", `"hide"`)
	s.Bool("logVisits", &v.Logged).Says("Whether its owner can see each visit.", `false`)
}

// memberFields bind what shareFields bind, as null: it is the owner's. There are no tags, because they are the owner's.
func (v *Shown) memberFields(s *field.Set) {
	null(s, "isFavorite", "boolean")
	null(s, "hasPassword", "boolean")
	if v.Kind == Files {
		null(s, "folder", "object")
	}
	s.Shown("tags", field.Schema{Type: "array"}, func(dst []byte) []byte { return append(dst, "[]"...) }).
		Says("Empty for those who are not its owner.", `[]`)
	null(s, v.Kind.Counter, "integer")
	null(s, "viewsOfLimit", "integer")
	null(s, v.Kind.Limit, "integer")
	null(s, "maxViewsAction", "string")
	null(s, "expiresAt", "string")
	null(s, "expiryAction", "string")
	null(s, "logVisits", "boolean")
}

// readerFields bind how somebody reads the record of another.
func (v *Shown) readerFields(s *field.Set) {
	s.Shown("owner", field.ObjectOf(&Person{}), func(dst []byte) []byte {
		return field.AppendJSON(dst, &v.Reader.Owner)
	}).Says("Who owns it. The owner's own records do not have this.",
		`{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"ann","displayName":"Ann"}`)
	roles := field.Schema{Type: "string", Enum: field.Words(MemberRoles)}
	s.Shown("role", roles, func(dst []byte) []byte { return field.AppendString(dst, string(v.Reader.Role)) }).
		Says("What the reader may do with it: see, add to the collection, or edit. The owner's own records do not have this.",
			`"see"`)
}

func (v *Shown) collectionFields(s *field.Set) {
	c := &v.Collected
	c.shared(s)
	number := field.Schema{Type: "integer"}
	s.Shown("itemCount", number, func(dst []byte) []byte { return strconv.AppendInt(dst, c.Items, 10) }).
		Says("How many items visitors see in it.", `24`)
	s.Shown("size", number, func(dst []byte) []byte { return strconv.AppendInt(dst, c.Bytes, 10) }).
		Says("Size of these files in bytes.", `91348213`)
	if v.ByMember {
		null(s, "leftOut", "integer")
	} else if !v.Visitor {
		s.Shown("leftOut", number, func(dst []byte) []byte { return strconv.AppendInt(dst, c.LeftOut, 10) }).
			Says("How many items visitors do not see in it, because they have a password, a limit or an end of their own.", `0`)
	}
	if !v.Visitor {
		id := field.Schema{Type: "string", Format: "uuid"}
		s.Shown("pictures", field.Schema{Type: "array", Items: &id}, func(dst []byte) []byte {
			return field.AppendList(dst, c.Pictures, func(dst []byte, id ID) []byte {
				return field.AppendString(dst, id.String())
			})
		}).Says("Ids of up to four of the items that visitors see and that have a picture, the cover first. "+
			"Their pictures are at /t/{slug of the collection}/{id}.", `["01890a5d-ac96-774b-bcce-b302099a8057"]`)
		v.sourceField(s)
		if v.ByMember {
			null(s, "uploadRequestId", "string")
		} else {
			s.ID("uploadRequestId", &c.Request, field.ReadOnly).
				Says("Upload request whose files go into it; null without one.", `null`)
		}
		member := field.ObjectOf(&Member{})
		s.Shown("members", field.Schema{Type: "array", Items: &member}, func(dst []byte) []byte {
			return field.AppendList(dst, c.Members, func(dst []byte, m Member) []byte { return field.AppendJSON(dst, &m) })
		}).Says("The people of this server who have a part in it, the oldest account first.", `[]`)
	}
	s.Shown("zipUrl", field.Schema{Type: "string", Format: "uri", Nullable: true}, func(dst []byte) []byte {
		if !c.Download {
			return append(dst, "null"...)
		}
		dst = v.appendURL(dst, "/x/")
		return append(dst[:len(dst)-1], `.zip"`...)
	}).Says("Address of a zip of everything in it; null if it may not be downloaded.",
		`"https://kist.example.org/x/summer-24.zip"`)
}

// sourceField binds where the items of a collection come from.
func (v *Shown) sourceField(s *field.Set) {
	c := &v.Collected
	source := field.Schema{Type: "object", Members: field.Of(&SourceRef{}).Fields(), Nullable: v.ByMember}
	s.Shown("source", source, func(dst []byte) []byte {
		if v.ByMember && c.Live() {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, &SourceRef{c.Folder, c.TagName})
	}).Says("What is in it: a folder, a tag, or, if both are null, the items that were added to it. For members, "+
		"null is a folder or a tag of its owner.",
		`{"folderId":null,"tag":null}`)
}

// SourceRef is the source of a collection as the collection names it.
type SourceRef struct {
	Folder ID
	Tag    string
}

func (r *SourceRef) Fields(s *field.Set) {
	s.ID("folderId", &r.Folder).Says("Folder whose files it has.", `null`)
	s.Shown("tag", field.Schema{Type: "string", Nullable: true}, func(dst []byte) []byte {
		if r.Tag == "" {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, r.Tag)
	}).Says("Tag whose items it has.", `null`)
}

func (v *Shown) pageFields(s *field.Set) {
	s.Shown("reachable", field.Schema{Type: "string", Enum: field.Words(Reaches)}, func(dst []byte) []byte {
		return field.AppendString(dst, string(cmp.Or(v.Page.State, NotKnown)))
	}).Says("Whether the page can be reached: no after three days of failures; unknown before the first check.", `"yes"`)
	s.Time("checkedAt", &v.Page.Checked, field.ReadOnly).
		Says("When the page was last checked; null is never.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("unreachableSince", &v.Page.Gone, field.ReadOnly).
		Says("Since when the page has been unreachable; null if it is reachable or its state is unknown.", `null`)
	s.Bool("behindSignIn", &v.Page.SignIn, field.ReadOnly).
		Says("Whether the site wants people to sign in or agree first. Title and description are not filled in then.",
			`false`)
	s.Shown("iconUrl", field.Schema{Type: "string", Format: "uri", Nullable: true}, func(dst []byte) []byte {
		if v.Page.Icon == (ID{}) {
			return append(dst, "null"...)
		}
		return v.appendURL(dst, "/t/")
	}).Says("Address on this server of the icon of the page's site, a PNG of at most 64 pixels, "+
		"for everyone who may see the bookmark; null when the page has no icon. The server fetches it in the background.",
		`"https://kist.example.org/t/summer-24"`)
}

// MetadataWords say what visitors get of the metadata in a file.
var MetadataWords = []string{"none", "removed", "kept", "unreadable"}

func (v *Shown) metadataFields(s *field.Set) {
	if v.ByMember { // who gets what visitors get
		null(s, "stripMetadata", "boolean")
		null(s, "metadata", "string")
		null(s, "metadataFound", "array")
		null(s, "takenAt", "string")
		null(s, "exif", "object")
		return
	}
	s.Not("stripMetadata", &v.KeepMetadata).
		Says("Whether visitors get the file without its metadata, if the settings of the instance allow it.", `true`)
	s.Shown("metadata", field.Schema{Type: "string", Enum: MetadataWords, Nullable: true}, func(dst []byte) []byte {
		word := ""
		switch m := v.metadata(); {
		case m.State == NotExamined:
			return append(dst, "null"...)
		case m.State == MetadataNone:
			word = "none"
		case m.State == MetadataUnreadable:
			word = "unreadable"
		case m.State == MetadataRemovable && !v.KeepMetadata && !v.NeverStrip:
			word = "removed"
		default:
			word = "kept"
		}
		return field.AppendString(dst, word)
	}).Says("What visitors get of the metadata in a picture or film, such as where it was taken: none, there is none; "+
		"removed, they get the file without it; "+
		"kept, they get it, because stripMetadata is false or nothing is removed from this format; "+
		"unreadable, the structure of the file cannot be understood, so they get it as it is; "+
		"null, nobody has looked yet. The owner always gets the uploaded bytes, of which sha256 and size are.", `"removed"`)
	found := field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: MetadataKinds}}
	s.Shown("metadataFound", found, func(dst []byte) []byte {
		return field.AppendList(dst, v.metadata().kinds(), field.AppendString)
	}).Says("What the metadata is about.", `["camera","gps","time"]`)
	v.photoFields(s)
}

// photoFields bind how a picture or a film was made.
func (v *Shown) photoFields(s *field.Set) {
	photo := func() *Photo {
		if v.Bytes == nil {
			return new(Photo)
		}
		return &v.Bytes.Photo
	}
	at := field.Schema{Type: "string", Format: "date-time", Nullable: true}
	s.Shown("takenAt", at, func(dst []byte) []byte { return field.AppendTime(dst, photo().Taken) }).
		Says("When a picture or film was taken, as it says or as its owner has set it; null is not known. "+
			"What has no offset is in the zone of the server.", `"2026-01-02T03:04:05.678Z"`)
	made := field.Schema{Type: "object", Nullable: true, Members: field.Of(new(exif)).Fields()}
	s.Shown("exif", made, func(dst []byte) []byte {
		p := *photo()
		p.Taken = time.Time{}
		if !p.Known() {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, &exif{p})
	}).Says("What it says about how it was made; null if it says nothing. Only its owner gets it.",
		`{"camera":"Acme Cam1","lens":"","location":{"lat":52.52,"lon":13.405}}`)
}

// exif is how a picture was made, in an answer.
type exif struct{ Photo }

func (e *exif) Fields(s *field.Set) {
	s.Text("camera", &e.Camera, MaxName).Says("Maker and model; empty if they are not known.", `"Acme Cam1"`)
	s.Text("lens", &e.Lens, MaxName).Says("Its lens; empty if it is not known.", `""`)
	place := field.Schema{Type: "object", Nullable: true, Members: field.Of(new(Location)).Fields()}
	s.Shown("location", place, func(dst []byte) []byte {
		if e.Location == nil {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, e.Location)
	}).Says("Where it was taken; null if it is not known.", `{"lat":52.52,"lon":13.405}`)
}

func (l *Location) Fields(s *field.Set) {
	degrees := func(n *float64) func([]byte) []byte {
		return func(dst []byte) []byte { return strconv.AppendFloat(dst, *n, 'f', -1, 64) }
	}
	s.Shown("lat", field.Schema{Type: "number"}, degrees(&l.Lat)).Says("Degrees; north is positive.", `52.52`)
	s.Shown("lon", field.Schema{Type: "number"}, degrees(&l.Lon)).Says("Degrees; east is positive.", `13.405`)
}

func (v *Shown) metadata() Metadata {
	if v.Bytes == nil {
		return Metadata{}
	}
	return v.Bytes.Metadata
}

// AppendURL appends the item's address as JSON text: the raw bytes of a file,
// the redirect of a short link, the page of any other item. What is read through a
// collection has its addresses there, and there is no redirect.
func (v *Shown) AppendURL(dst []byte) []byte {
	switch {
	case v.Kind == Files:
		return v.appendURL(dst, "/x/")
	case v.Kind == Links && v.Reader.Through == "":
		return v.appendURL(dst, "/s/")
	}
	return v.appendURL(dst, "/v/")
}

func (v *Shown) appendURL(dst []byte, at string) []byte {
	dst = append(append(append(dst, '"'), v.Base...), at...)
	if v.Reader.Through != "" {
		dst = append(append(dst, v.Reader.Through...), '/')
		dst = append(dst, v.ID.String()...)
	} else {
		dst = append(dst, v.Slug...)
	}
	return append(dst, '"')
}

func (v *Shown) appendFolder(dst []byte) []byte {
	if v.Folder == (ID{}) {
		return append(dst, "null"...)
	}
	return field.AppendJSON(dst, &FolderRef{v.Folder, v.FolderName})
}

// AppendTagNames appends the names of the tags as a JSON array.
func (v *Shown) AppendTagNames(dst []byte) []byte {
	return field.AppendList(dst, v.TagList, func(dst []byte, t Tag) []byte { return field.AppendString(dst, t.Name) })
}

func (v *Shown) appendTagRefs(dst []byte) []byte {
	return field.AppendList(dst, v.TagList, func(dst []byte, t Tag) []byte {
		return field.AppendJSON(dst, &TagRef{t.ID, t.Name, t.Color})
	})
}

// FolderRef is a folder as a file names it.
type FolderRef struct {
	ID   ID
	Name string
}

func (r *FolderRef) Fields(s *field.Set) {
	s.ID("id", &r.ID, field.Always).Says("Id of the folder.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Name("name", &r.Name, MaxName).Says("Name of the folder.", `"Holidays"`)
}

// TagRef is a tag as a file names it.
type TagRef struct {
	ID          ID
	Name, Color string
}

func (r *TagRef) Fields(s *field.Set) {
	s.ID("id", &r.ID, field.Always).Says("Id of the tag.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Ruled("name", &r.Name, CleanTag, "", MaxTag).Says("Name of the tag.", `"travel"`)
	s.Ruled("color", &r.Color, CleanColor, ColorPattern, 7).Says("Colour.", `"#3B82F6"`)
}
