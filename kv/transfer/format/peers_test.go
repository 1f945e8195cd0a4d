package format

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"kist/kv/field"
)

// The sources below have the columns and members that the programs export, in
// their order, as in their exporters or published samples.

const raindropSample = "id,title,note,excerpt,url,folder,tags,created,cover,highlights,favorite\n" +
	`801,"Bread, at home","Try with rye
next time",How to bake,https://example.com/bread,Kitchen/Oven / Baking,"food, how to",2023-01-15T10:30:00.000Z,https://example.com/bread.jpg,"Highlight: Use a hot stone",true` + "\n" +
	"802,Plain,,,https://example.com/plain,Unsorted,,2023-01-16T10:30:00.000Z,,,false\n"

const instapaperSample = "URL,Title,Selection,Folder,Timestamp,Tags\n" +
	`https://example.com/a,A,A passage that was marked,Unread,1700000000,"[""read, later"",""two""]"` + "\n" +
	"https://example.com/b,B,,Archive,1700000001,[]\n" +
	"https://example.com/c,C,,Starred,1700000002,[]\n" +
	"https://example.com/d,D,,Recipes,yesterday,[]\n"

const otherCSVSample = "Name;URL;Collection;Comment;Date added;Rating;Starred;State\n" +
	"N;https://example.com/n;Shelf;I like it;2023-01-15;5;perhaps;sold\n" +
	"M;https://example.com/m;;;;4;yes;archived;ninth\n"

const wallabagSample = `[{"is_archived":1,"is_starred":0,"user_name":"ann","user_email":"ann@example.org","user_id":1,"tags":["one","two words"],"is_public":false,
 "id":7,"uid":null,"title":"A page","url":"https://example.org/page","hashed_url":"0a","origin_url":"https://feed.example.org/1","given_url":"https://example.org/page?x","hashed_given_url":"0b",
 "archived_at":"2024-01-05T10:00:00+0000","content":"<p>Text</p>","created_at":"2024-01-01T10:00:00+0100","updated_at":"2024-01-02T10:00:00+0000","published_at":null,"published_by":[""],"starred_at":null,
 "annotations":[{"user":"ann","annotator_schema_version":"v1.0","id":5,"text":"my thought","created_at":"2024-01-02T09:00:00+0000","updated_at":"2024-01-03T18:30:00+0000","quote":"marked\ntext","ranges":[{"start":"/p[1]","startOffset":"0","end":"/p[1]","endOffset":"12"}]}],
 "mimetype":"text/html","language":"en","reading_time":1,"domain_name":"example.org","preview_picture":"https://example.org/p.png","http_status":"200","headers":{"server":"x"}},
 {"is_archived":false,"is_starred":true,"tags":[{"id":3,"label":"label","slug":"label"}],"title":"You Wouldn&#039;t &amp; more &","url":"https://example.org/2","created_at":"not a date"}]`

const omnivoreList = `[
  {"id":"9c","slug":"a-page-18d","title":"A page","description":"About it","author":"Bob","url":"https://example.org/a","state":"Archived","readingProgress":100,
   "thumbnail":"https://example.org/a.jpg","labels":["one","Two"],"savedAt":"2024-01-01T10:00:00.000Z","updatedAt":"2024-01-02T10:00:00.000Z","publishedAt":null},
  {"id":"9d","slug":"b-18e","title":"B","description":null,"author":null,"url":"https://example.org/b","state":"Active","readingProgress":0,"thumbnail":null,"labels":[],"savedAt":"2024-01-03T10:00:00.000Z","updatedAt":null,"publishedAt":null}
]`

var omnivoreSample = zipped("metadata_0_to_20.json", omnivoreList, "content/a-page-18d.html", "<p>Text</p>", "highlights/a-page-18d.md", "> A passage\n", "highlights/gone.md", "> lost",
	"metadata_20_to_40.json", `[{"slug":"c","title":"C","url":"https://example.org/c","state":"Unknown","savedAt":"2024-01-03T10:00:00.000Z"}]`)

const omnivoreCSV = "url,state,labels\nhttps://example.org/a,SUCCEEDED,\"[\"\"one\"\",\"\"two\"\"]\"\nhttps://example.org/b,ARCHIVED,[]\n"

const linkwardenSample = `{"name":"Ann","username":"ann","email":null,"locale":"en","collections":[
  {"name":"Reading","description":"What I read","color":"#0ea5e9","parentId":null,"isPublic":true,"ownerId":1,"createdAt":"2024-01-01T10:00:00.000Z","rssSubscriptions":[],"links":[
    {"name":"A page","type":"url","description":"About it","collectionId":2,"url":"https://example.org/a","textContent":"Text","preview":"archives/preview/2/1.jpeg","image":null,"pdf":null,"readable":null,"lastPreserved":null,"importDate":null,"createdAt":"2024-01-01T11:00:00.000Z","updatedAt":"2024-01-02T11:00:00.000Z","tags":[{"name":"one","ownerId":1,"createdAt":"2024-01-01T11:00:00.000Z"}]},
    {"name":"A picture","type":"image","description":"","url":null,"createdAt":"2024-01-01T11:00:00.000Z","tags":[]}]},
  {"name":"Empty","links":[]}],
 "pinnedLinks":[{"name":"A page","type":"url","description":"About it","url":"https://example.org/a","importDate":"2019-01-01T11:00:00.000Z","createdAt":"2024-01-01T11:00:00.000Z"}],"whitelistedUsers":[]}`

const firefoxSample = `{"guid":"root________","title":"","index":0,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":1,"typeCode":2,"type":"text/x-moz-place-container","root":"placesRoot","children":[
 {"guid":"menu________","title":"menu","index":0,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":2,"typeCode":2,"type":"text/x-moz-place-container","root":"bookmarksMenuFolder","children":[
  {"guid":"f1","title":"Work","index":0,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":7,"typeCode":2,"type":"text/x-moz-place-container","children":[
   {"guid":"a1","title":"Go","index":0,"dateAdded":1700000000000000,"lastModified":1700000100000000,"id":8,"typeCode":1,"tags":"one,two","iconUri":"https://go.dev/favicon.ico","keyword":"go","postData":null,"type":"text/x-moz-place","uri":"https://go.dev/",
    "annos":[{"name":"bookmarkProperties/description","flags":0,"expires":4,"value":"Language home"}]},
   {"guid":"s1","title":"","index":1,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":9,"typeCode":3,"type":"text/x-moz-place-separator"},
   {"guid":"f2","title":"Empty","index":2,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":10,"typeCode":2,"type":"text/x-moz-place-container"}]}]},
 {"guid":"unfiled_____","title":"unfiled","index":3,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":5,"typeCode":2,"type":"text/x-moz-place-container","root":"unfiledBookmarksFolder","children":[
  {"guid":"a2","title":"Most visited","index":0,"dateAdded":1700000000000000,"lastModified":1700000000000000,"id":11,"typeCode":1,"type":"text/x-moz-place","uri":"place:sort=8"}, 7]}]}`

const chromeSample = `{"checksum":"5f","roots":{"bookmark_bar":{"children":[
   {"children":[{"date_added":"13344473600000000","date_last_used":"0","guid":"g1","id":"6","meta_info":{"power_bookmark_meta":""},"name":"Go","type":"url","url":"https://go.dev/"}],"date_added":"13344473600000000","date_last_used":"0","date_modified":"13344473600000000","guid":"g2","id":"5","name":"Work","type":"folder"},
   {"date_added":"0","date_last_used":"13344473600000000","guid":"g3","id":"7","name":"B","type":"url","url":"https://example.org/b"}],
  "date_added":"13344473600000000","date_last_used":"0","date_modified":"13344473600000000","guid":"g4","id":"1","name":"Bookmarks bar","type":"folder"},
 "other":{"children":[],"date_added":"13344473600000000","guid":"g5","id":"2","name":"Other bookmarks","type":"folder"},"synced":{"children":[],"guid":"g6","id":"3","name":"Mobile bookmarks","type":"folder"}},"version":1}`

const instapaperHTML = "<!DOCTYPE html>\n<html><body>\n<h1>Unread</h1>\n<ol>\n<li><a " +
	"href=\"https://example.com/a\">A</a>\n</ol>\n<h1>Recipes</h1><ol><li><a " +
	"href=\"https://example.com/b\">B</a></ol></body></html>"

const pocketHTML = "<!DOCTYPE html>\n<html><body>\n<h1>Unread</h1>\n<ul>\n<li><a href=\"https://example.com/a\" " +
	"time_added=\"1700000000\" tags=\"x,y\">A</a></li>\n</ul>\n<h1>Read Archive</h1>\n<ul><li><a " +
	"href=\"https://example.com/b\" time_added=\"soon\" tags=\"\">B</a></li></ul></body></html>"

func many(n int) string { return fmt.Sprintf("This is not imported; %d entries have it.", n) }

// unreadMembers are rows for members that one entry has.
func unreadMembers(names ...string) (rows []string) {
	for _, name := range names {
		rows = append(rows, fmt.Sprintf("member %q: %s", name, once))
	}
	return rows
}

func TestPeers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format Format
		data   string
		want   []string
	}{
		{Raindrop, raindropSample, []string{
			`line 2: bookmark {"description":"How to bake\n\nTry with rye\nnext time\n\nHighlight: Use a hot stone","imageUrl":"https://example.com/bread.jpg","isFavorite":true,"tags":["Kitchen/Oven","Baking","food","how to"],"title":"Bread, at home","url":"https://example.com/bread"} 2023-01-15T10:30:00Z`,
			`line 4: bookmark {"title":"Plain","url":"https://example.com/plain"} 2023-01-16T10:30:00Z`,
			`column "id": ` + many(2),
		}},
		{Instapaper, instapaperSample, []string{
			`line 2: bookmark {"description":"A passage that was marked","tags":["unread","read later","two"],"title":"A","url":"https://example.com/a"} 2023-11-14T22:13:20Z`,
			`line 3: bookmark {"tags":["archived"],"title":"B","url":"https://example.com/b"} 2023-11-14T22:13:21Z`,
			`line 4: bookmark {"isFavorite":true,"title":"C","url":"https://example.com/c"} 2023-11-14T22:13:22Z`,
			`line 5: bookmark {"tags":["Recipes"],"title":"D","url":"https://example.com/d"}`,
			`column "Timestamp": ` + once,
		}},
		{CSV, otherCSVSample, []string{
			`line 2: bookmark {"tags":["Shelf"],"title":"N","url":"https://example.com/n"} 2023-01-15T00:00:00Z (The state "sold" is not imported.)`,
			`line 3: bookmark {"isFavorite":true,"tags":["archived"],"title":"M","url":"https://example.com/m"}`,
			`column "Comment": ` + once, `column "Rating": ` + many(2), `column "Starred": ` + once, `column "9": ` + once,
		}},
		{CSV, omnivoreCSV, []string{
			`line 2: bookmark {"tags":["one","two"],"url":"https://example.org/a"}`,
			`line 3: bookmark {"tags":["archived"],"url":"https://example.org/b"}`,
		}},
		{Wallabag, wallabagSample, append([]string{
			`entry 1: bookmark {"description":"\u003e marked\n\u003e text\n\nmy thought","imageUrl":"https://example.org/p.png","tags":["one","two words","archived"],"title":"A page","url":"https://example.org/page"} 2024-01-01T09:00:00Z`,
			`entry 2: bookmark {"isFavorite":true,"tags":["label"],"title":"You Wouldn't \u0026 more \u0026","url":"https://example.org/2"}`,
		}, unreadMembers("annotations.annotator_schema_version", "annotations.created_at", "annotations.id", "annotations.ranges", "annotations.updated_at", "annotations.user",
			"archived_at", "content", "domain_name", "given_url", "hashed_given_url", "hashed_url", "headers", "http_status", "id", "language", "mimetype", "origin_url", "published_by", "reading_time", "user_email", "user_id", "user_name",
			"tags.id", "tags.slug", "created_at")...)},
		{Omnivore, omnivoreSample, append(append([]string{
			`metadata_0_to_20.json, entry 1: bookmark {"description":"About it\n\n\u003e A passage","imageUrl":"https://example.org/a.jpg","tags":["one","Two","archived"],"title":"A page","url":"https://example.org/a"} 2024-01-01T10:00:00Z`,
			`metadata_0_to_20.json, entry 2: bookmark {"title":"B","url":"https://example.org/b"} 2024-01-03T10:00:00Z`,
			`metadata_20_to_40.json, entry 1: bookmark {"title":"C","url":"https://example.org/c"} 2024-01-03T10:00:00Z`,
			`folder "content/": ` + once, `folder "highlights/": ` + once,
		}, unreadMembers("author")...), `member "id": `+many(2), `member "readingProgress": `+many(2), `member "slug": `+many(3), `member "state": `+once)},
		{Omnivore, omnivoreList, append([]string{
			`entry 1: bookmark {"description":"About it","imageUrl":"https://example.org/a.jpg","tags":["one","Two","archived"],"title":"A page","url":"https://example.org/a"} 2024-01-01T10:00:00Z`,
			`entry 2: bookmark {"title":"B","url":"https://example.org/b"} 2024-01-03T10:00:00Z`,
		}, append(
			unreadMembers("author"), `member "id": `+many(2), `member "readingProgress": `+many(2), `member "slug": `+many(2),
		)...)},
		{Linkwarden, linkwardenSample, append([]string{
			`entry 1: bookmark {"description":"About it","tags":["one","Reading"],"title":"A page","url":"https://example.org/a"} 2024-01-01T11:00:00Z`,
			`entry 2: "A picture" refused: It is a file that was uploaded, and the export does not have its bytes.`,
			`entry 3: bookmark {"description":"About it","isFavorite":true,"title":"A page","url":"https://example.org/a"} 2019-01-01T11:00:00Z`,
		}, unreadMembers("folder.color", "folder.createdAt", "folder.description", "folder.isPublic", "folder.ownerId", "document.locale", "document.name", "document.username",
			"tags.createdAt", "tags.ownerId", "collectionId", "preview", "textContent", "createdAt")...)},
		{Firefox, firefoxSample, append(append([]string{
			`entry 1: bookmark {"description":"Language home","tags":["one","two","Work"],"title":"Go","url":"https://go.dev/"} 2023-11-14T22:13:20Z`,
			`entry 2: bookmark {"title":"Most visited","url":"place:sort=8"} 2023-11-14T22:13:20Z`,
		}, `member "folder.dateAdded": `+many(5), `member "folder.guid": `+many(5), `member "folder.id": `+many(5), `member "folder.index": `+many(5), `member "folder.lastModified": `+many(5)),
			append(unreadMembers(
				"document.dateAdded", "document.guid", "document.id", "document.index", "document.lastModified", "annos.expires",
				"annos.flags",
			),
				append([]string{`member "guid": ` + many(2)}, append(
					unreadMembers("iconUri"), `member "id": `+many(2), `member "index": `+many(2), `member "keyword": `+once,
					`member "folder.title": `+once, `member "children": `+once,
				)...)...)...)},
		{Chrome, chromeSample, []string{
			`entry 1: bookmark {"tags":["Work"],"title":"Go","url":"https://go.dev/"} 2023-11-14T22:13:20Z`,
			`entry 2: bookmark {"title":"B","url":"https://example.org/b"}`,
			`member "folder.date_added": ` + many(3), `member "folder.date_last_used": ` + many(2), `member "folder.date_modified": ` + many(2), `member "folder.guid": ` + many(4), `member "folder.id": ` + many(4),
			`member "document.checksum": ` + once, `member "document.version": ` + once, `member "guid": ` + many(2), `member "id": ` + many(2), `member "meta_info": ` + once, `member "date_last_used": ` + once,
		}},
		{Netscape, instapaperHTML, []string{
			`line 5: bookmark {"tags":["unread"],"title":"A","url":"https://example.com/a"}`,
			`line 7: bookmark {"tags":["Recipes"],"title":"B","url":"https://example.com/b"}`,
		}},
		{Netscape, pocketHTML, []string{
			`line 5: bookmark {"tags":["unread","x","y"],"title":"A","url":"https://example.com/a"} 2023-11-14T22:13:20Z`,
			`line 8: bookmark {"tags":["archived"],"title":"B","url":"https://example.com/b"}`,
			`attribute "time_added": ` + once,
		}},
	} {
		is := is.New(t)
		got := rowsOf(c.format, source(c.data))
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", c.format, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		found, err := Detect(source(c.data))
		is.NoErr(err)
		is.Equal(found, c.format)
	}
}

// Every value of a source that its reader does not read is reported, once for
// each column, member or attribute, in each format.
func TestUnread(t *testing.T) {
	t.Parallel()
	tested := map[Format]bool{}
	// mark adds a member that no reader knows to each object of a source.
	mark := func(data string) string { return strings.ReplaceAll(data, "{\"", "{\"kistUnknown\":\"x\",\"") }
	for _, c := range []struct {
		format Format
		data   string
		want   []string // where it is reported; there may be more
	}{
		{
			Netscape, strings.NewReplacer("<A ", `<A KIST_UNKNOWN="x" `, "<H3", `<H3 KIST_UNKNOWN="x"`).Replace(netscapeSample),
			[]string{`attribute "kist_unknown"`, `attribute "folder.kist_unknown"`},
		},
		{
			Netscape, "<DL><DT><H3>F</H3><DD>About the folder<DL><DT><A HREF=\"https://a.test\">a</A></DL></DL>",
			[]string{`attribute "folder.description"`},
		},
		{Linkding, mark(linkdingSample), []string{`member "kistUnknown"`, `member "document.kistUnknown"`}},
		{
			Karakeep, mark(karakeepSample),
			[]string{
				`member "kistUnknown"`, `member "content.kistUnknown"`, `member "lists.kistUnknown"`,
				`member "document.kistUnknown"`,
			},
		},
		{
			Wallabag, mark(wallabagSample),
			[]string{`member "kistUnknown"`, `member "annotations.kistUnknown"`, `member "tags.kistUnknown"`},
		},
		{Omnivore, mark(omnivoreList), []string{`member "kistUnknown"`}},
		{
			Omnivore,
			zipped("metadata_0_to_20.json", mark(omnivoreList), "metadata_20_to_40.json", mark(omnivoreList), "other/x", "y"),
			[]string{`member "kistUnknown"`, `folder "other/"`},
		},
		{
			Linkwarden, mark(linkwardenSample),
			[]string{
				`member "kistUnknown"`, `member "folder.kistUnknown"`, `member "document.kistUnknown"`, `member "tags.kistUnknown"`,
			},
		},
		{
			Firefox, mark(firefoxSample),
			[]string{
				`member "kistUnknown"`, `member "folder.kistUnknown"`, `member "document.kistUnknown"`,
				`member "annos.kistUnknown"`, `member "children"`,
			},
		},
		{
			Chrome, mark(chromeSample),
			[]string{
				`member "kistUnknown"`, `member "folder.kistUnknown"`, `member "document.kistUnknown"`, `member "meta_info"`,
			},
		},
		{Pocket, "kist Unknown,url\nx,https://a.test\n", []string{`column "kist Unknown"`}},
		{
			Pocket, zipped("part_0.csv", "url,x\nhttps://a.test,1\n", "part_1.csv", "url,x\nhttps://b.test,2\n"),
			[]string{`column "x"`},
		},
		{
			Raindrop, "url,note,created,url\nhttps://a.test,n,soon,https://b.test,beyond\n",
			[]string{`column "created"`, `column "url"`, `column "5"`},
		},
		{Instapaper, "URL,Highlights,Mood\nhttps://a.test,h,glad\n", []string{`column "Mood"`}},
		{CSV, "url;kist\nhttps://a.test;x\n", []string{`column "kist"`}},
		{Shlink, "longUrl,device,visits\nhttps://a.test,phone,9\n", []string{`column "device"`}},
		{Shlink, mark(shlinkJSON), []string{`member "kistUnknown"`, `member "document.kistUnknown"`}},
		{YOURLS, mark(yourlsJSON), []string{`member "kistUnknown"`, `member "document.kistUnknown"`}},
		{Kutt, mark(kuttJSON), []string{`member "kistUnknown"`, `member "document.kistUnknown"`}},
		{Bitly, mark(bitlyJSON), []string{`member "kistUnknown"`, `member "document.kistUnknown"`}},
		{ShortLinks, "slug,url,clicks,kist\na,https://a.test,1,x\n", []string{`column "kist"`}},
		{Grouvee, mark(grouveeJSON), []string{`member "kistUnknown"`}},
		{Grouvee, "name,shelves,kist\na,{},x\n", []string{`column "kist"`}},
		{Playnite, "name,play count,kist\na,3,x\n", []string{`column "kist"`, `column "play count"`}},
		{
			Paprika, zipped("a.paprikarecipe", gzipped(mark(paprikaJSON)), "b.paprikarecipe", gzipped(mark(paprikaJSON)), "x", ""),
			[]string{`member "kistUnknown"`, `member "photos.kistUnknown"`, `file "x"`},
		},
		{Paprika, mark("[" + paprikaJSON + "]"), []string{`member "kistUnknown"`}},
		{Tandoor, zipped("a.zip", zipped("recipe.json", mark(tandoorJSON)), "x", ""), []string{
			`member "kistUnknown"`, `member "steps.kistUnknown"`, `member "steps.ingredients.kistUnknown"`,
			`member "steps.ingredients.food.kistUnknown"`, `member "keywords.kistUnknown"`, `file "x"`,
		}},
		{Mealie, mark(mealieJSON), []string{
			`member "kistUnknown"`, `member "recipeIngredient.kistUnknown"`, `member "recipeInstructions.kistUnknown"`,
			`member "notes.kistUnknown"`, `member "tags.kistUnknown"`,
		}},
		{Markdown, zipped("a.md", "x", ".git/x", "y"), []string{`folder ".git/"`}},
		{
			Keep, zipped("Keep/a.json", mark(`{"title":"x","listContent":[{"text":"y"}],"userEditedTimestampUsec":1}`), "Keep/b.html", ""),
			[]string{`member "kistUnknown"`, `member "listContent.kistUnknown"`, `file "*.html"`},
		},
		{
			Kist, zipped(ManifestName, `{"format":"kist","version":1}`, TagsName, `{"name":"t","kistUnknown":1}`, FoldersName, `{"name":"f","kistUnknown":1}`,
				"notes.jsonl", `{"slug":"n","content":"c","kistUnknown":[1]}`+"\n"+`{"slug":"m","content":"c","kistUnknown":[1]}`, "more.jsonl", "{}"),
			[]string{
				`member "tags.kistUnknown"`, `member "folders.kistUnknown"`, `member "notes.kistUnknown"`, `file "more.jsonl"`,
			},
		},
	} {
		is := is.New(t)
		tested[c.format] = true
		told := map[string]int{}
		for row, err := range Read(c.format, source(c.data)) {
			is.NoErr(err)
			if row.Whole {
				told[row.At]++
			}
		}
		for at, n := range told {
			if n != 1 {
				t.Errorf("%s: %s is reported %d times", c.format, at, n)
			}
		}
		for _, at := range c.want {
			if told[at] != 1 {
				t.Errorf("%s: %s is not reported: %v", c.format, at, told)
			}
		}
	}
	is := is.New(t)
	is.Equal(len(tested), len(Formats)-1) // all except files, which have no members
}

// A report names a limited number of columns, however many a source has.
// TestCharsets: a source may be in any charset, and the report says which.
func TestCharsets(t *testing.T) {
	const word = "Größe – 5 €"
	entry := func(tag string) string {
		return `{"tags":["` + strings.ToLower(tag) + `"],"title":"` + word + `","url":"https://a.test/"}`
	}
	const doctype = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n"
	const links = "<DL><p>\n<DT><A HREF=\"https://a.test/\" TAGS=\"größe\">" + word + "</A>\n</DL><p>\n"
	const page = doctype + links
	const declares = doctype + `<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=windows-1252">` + links
	const table = "url,title,tags\r\nhttps://a.test/," + word + ",größe\r\n"
	const tabs = "url\ttitle\ttags\r\nhttps://a.test/\t" + word + "\tgröße\r\n"
	const list = `[{"url":"https://a.test/","title":"` + word + `","tag_names":["größe"]}]`
	const tree = `{"type":"text/x-moz-place-container","children":[` +
		`{"type":"text/x-moz-place","title":"` + word + `","uri":"https://a.test/","tags":"größe"}]}`
	const saved = `[{"url":"https://a.test/","title":"` + word + `","labels":["größe"],"savedAt":"","slug":"a"}]`
	const guessed = "It does not say in which encoding it is. It was read as windows-1252: " +
		"look whether its letters are right. If not, convert it to UTF-8."

	bytes := func(e encoding.Encoding, text string) string {
		out, err := e.NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	old, wide := charmap.Windows1252, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	for _, row := range []struct {
		name   string
		format Format
		data   string
		says   string // what the report says first
	}{
		{"page", Netscape, bytes(old, page), "the text: " + guessed},
		{
			"page that declares it", Netscape, bytes(old, declares),
			"the text: It is in the encoding windows-1252, and was converted.",
		},
		{"page of UTF-16", Netscape, bytes(wide, page), "the text: It is in the encoding utf-16le, and was converted."},
		{"page of UTF-8", Netscape, page, ""},
		{"CSV", CSV, bytes(old, table), "the text: " + guessed},
		{"CSV of UTF-16", CSV, bytes(wide, table), "the text: It is in the encoding utf-16le, and was converted."},
		{"tabs of UTF-16", CSV, bytes(wide, tabs), "the text: It is in the encoding utf-16le, and was converted."},
		{"list", Linkding, bytes(old, list), "the text: " + guessed},
		{"tree", Firefox, bytes(old, tree), "the text: " + guessed},
		{"zip of CSV", Pocket, zipped("part_0.csv", bytes(old, table)), "part_0.csv: " + guessed},
		{"zip of lists", Omnivore, zipped("metadata_0.json", bytes(old, saved)), "metadata_0.json: " + guessed},
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			found, err := Detect(source(row.data))
			is.NoErr(err)
			is.Equal(found, row.format)

			got := rowsOf(row.format, source(row.data))
			if row.says != "" {
				is.Equal(got[0], row.says)
				got = got[1:]
			}
			_, made, _ := strings.Cut(got[0], ": bookmark ")
			is.Equal(made, entry("größe"))
		})
	}
	broken := rowsOf(CSV, source("url,title\nhttps://a.test/,Grün und Größe und Übermut \xff\n"))
	is.New(t).Equal(broken[0], "the text: 1 byte is not valid UTF-8; it became U+FFFD.")
}

// TestDescriptions: markup in a description stays in it, and makes no bookmark.
func TestDescriptions(t *testing.T) {
	for markup, want := range map[string]string{
		`See <a href="http://other.example/">the other page</a> for <b>more</b>`: "See the other page (http://other.example/) for more",
		`See <a href="http://other.example/">http://other.example/</a>, please`:  "See http://other.example/, please",
		`<a name="x">An anchor</a> and more`:                                     "An anchor and more",
		`<a href="http://other.example/">left open`:                              "left open",
		"a<ul><li>b<li>c</ul>d":                                                  "a\n\nb\nc\nd",
		"a<ol>\n<li>b</li>\n</ol>\nd":                                            "a\n\n\nb\n\n\nd",
		"a<li>b":                                                                 "a\nb",
		"a<hr>b":                                                                 "a\nb",
		"a<h3>b</h3>c":                                                           "a\nbc",
		"a<h1>b</h1>c":                                                           "a\nbc",
		"a<dt>b":                                                                 "a\nb",
		"a<dt> b <a href=http://other.example/>c</a>":                            "a\n b c (http://other.example/)",
		"a<dd>b":    "a\nb",
		"a<p>b<p>z": "a\nb\nz",
		"the tag <title> and <script> and <textarea>": "the tag  and  and",
		"a<!-- no -->b":      "ab",
		"a &lt;a href=x&gt;": "a <a href=x>",
	} {
		var got []string
		for _, row := range rowsOf(Netscape, source("<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n<DT><H3>In</H3>\n<DD>"+markup+"\n<DL><p>\n"+
			"<DT><A HREF=\"http://one.example/\">One</A>\n<DD>"+markup+"\n<DT><A HREF=\"http://two.example/\">Two</A>\n<DD>"+markup+"\n</DL><p>\n"+
			"<DT><A HREF=\"http://three.example/\">Three</A>\n</DL>\n")) {
			_, row, _ = strings.Cut(row, ": ")
			got = append(got, row)
		}
		said, err := json.Marshal(want)
		is := is.New(t)
		is.NoErr(err)
		is.Equal(got, []string{
			`bookmark {"description":` + string(said) + `,"tags":["In"],"title":"One","url":"http://one.example/"}`,
			`bookmark {"description":` + string(said) + `,"tags":["In"],"title":"Two","url":"http://two.example/"}`,
			`bookmark {"title":"Three","url":"http://three.example/"}`,
			once,
		})
	}
}

func TestUnreadBound(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names, cells := []string{"url"}, []string{"https://a.test"}
	for i := range 3 * maxUnread {
		names, cells = append(names, fmt.Sprint("column", i)), append(cells, "x")
	}
	got := rowsOf(CSV, source(strings.Join(names, ",")+"\n"+strings.Join(cells, ",")+"\n"))
	is.Equal(len(got), 1+maxUnread+1)
	is.Equal(got[len(got)-1], "other columns: These are not imported; they have 200 values.")
}

// An unknown source is refused with a hint, also JSON and CSV that only look
// like a known format.
func TestHint(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"bookmarks":[{"link":"https://a.test"}]}`, `{"bookmarks":{"a":1}}`, `{"results":[]}`, `[{"href":"https://a.test","description":"d"}]`, `{"collections":[]}`, "link,title\nhttps://a.test,A\n",
	} {
		is := is.New(t)
		_, err := Detect(source(data))
		is.True(errors.As(err, new(Unreadable)))
		is.True(strings.HasSuffix(err.Error(), "Most programs can also export bookmarks as HTML: import that."))
	}
	is := is.New(t)
	_, err := Detect(source("mozLz40\x00\x10\x00\x00\x00abc"))
	is.True(strings.Contains(err.Error(), "compressed backup of Firefox"))
}

// Broken, deep or large trees give an error for people, and take bounded
// memory.
func TestTrees(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	folder := `{"title":"f","type":"text/x-moz-place-container","children":[`
	deep := strings.Repeat(folder, maxTreeDepth+1) + strings.Repeat("]}", maxTreeDepth+1)
	is.Equal(rowsOf(Firefox, source(deep)), []string{"error: Its folders are nested deeper than 500 levels."})
	is.Equal(rowsOf(Firefox, source(folder)), []string{"error: It is not complete JSON: it ends too early."})
	is.Equal(rowsOf(Chrome, source(`[1]`)), []string{"error: It cannot be read: it is not a JSON object."})
	is.Equal(
		rowsOf(Chrome, source(`{"roots":{"a":{"children":[{"type":"url","url":"https://a.test","name":"x","name":"y"}]}}}`)),
		[]string{`entry 1: "" refused: The entry names "name" twice.`},
	)
	long := `{"a":"` + strings.Repeat("x", MaxEntry-100) + `","children":[`
	is.Equal(rowsOf(Firefox, source(strings.Repeat(long, 3))), []string{"error: An entry is longer than 16777216 bytes."})
	var b strings.Builder
	b.WriteString(`{"children":[`)
	for i := range maxTreeNames + 2 {
		fmt.Fprintf(&b, `{"title":"f%d","children":[{"type":"text/x-moz-place","uri":"https://a.test/%d"}]},`, i, i)
	}
	b.WriteString(`{"type":"text/x-moz-place-separator"}]}`)
	got := rowsOf(Firefox, source(b.String()))
	is.Equal(len(got), maxTreeNames+2+1)
	is.Equal(got[len(got)-1], "folders: Only the first 20000 folders became tags; 2 did not.")
}

// A zip that would unpack to far more than its size is refused, also if its
// entries share their bytes.
func TestBomb(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	announced := func(size uint64) string {
		var b, packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		is.NoErr(err)
		_, err = w.Write(make([]byte, 1<<20))
		is.NoErr(err)
		is.NoErr(w.Close())
		z := zip.NewWriter(&b)
		part, err := z.CreateRaw(&zip.FileHeader{
			Name: "a", Method: zip.Deflate, CompressedSize64: uint64(packed.Len()), UncompressedSize64: size,
		})
		is.NoErr(err)
		_, err = part.Write(packed.Bytes())
		is.NoErr(err)
		is.NoErr(z.Close())
		return b.String()
	}
	for _, size := range []uint64{300 << 20, 1 << 63, 1<<64 - 1} {
		bomb := announced(size)
		for _, f := range []Format{Folder, Kist, Pocket, Omnivore} {
			is.Equal(rowsOf(f, source(bomb)), []string{"error: " + errBomb.Error()})
		}
		_, err := Detect(source(bomb))
		is.Equal(err, errBomb)
	}
	// Only as much of an entry is read as its header says.
	for row, err := range Read(Folder, source(announced(1000))) {
		is.NoErr(err)
		r, err := row.Open()
		is.NoErr(err)
		n, err := io.Copy(io.Discard, r)
		is.True(err != nil && n < 100<<10)
	}
}

// An object of a source reports its unread members, whatever their type.
func TestEntry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o, err := field.Parse([]byte(`{"text":1,"yes":"maybe","one":1,"none":null,"empty":[],"texts":["a",1],"object":{"a":"b","c":"d"},"objects":[1],"when":"soon","int":5.5,"no":false}`))
	is.NoErr(err)
	left := notRead("member")
	e := &entry{o: o, unread: left}
	is.Equal(e.text("text"), "")
	is.Equal(e.yes("yes"), false)
	is.Equal(e.yes("one"), true)
	is.Equal(len(e.texts("texts")), 0)
	is.Equal(e.object("object").text("a"), "b")
	is.Equal(len(e.objects("objects")), 0)
	is.True(e.when("when").IsZero())
	is.Equal(e.number("int"), "5")
	e.done()
	is.Equal(left.names, []string{"object.c", "objects", "text", "texts", "when", "yes"})
}

func FuzzCSV(f *testing.F) {
	fuzz(
		f, CSV, raindropSample, instapaperSample, otherCSVSample, omnivoreCSV, "url,url,\nx,y,z,w\n",
		"url,tags\nx,\"[\"\"a\"\"\"\n", "url\n\n,\n",
	)
}

func FuzzWallabag(f *testing.F) {
	fuzz(
		f, Wallabag, wallabagSample, `[{"annotations":[{"quote":[]}],"tags":[1,{}]}]`, `{"entries":[{}]}`,
		`[{"tags":[{"label":1}],"is_starred":"1"}]`,
	)
}

func FuzzOmnivore(f *testing.F) {
	fuzz(
		f, Omnivore, omnivoreSample, omnivoreList, zipped("metadata_1.json", "[{\"slug\":\"x\"}]", "highlights/x.md", "\xff"),
		omnivoreSample[:len(omnivoreSample)-40],
	)
}

func FuzzLinkwarden(f *testing.F) {
	fuzz(
		f, Linkwarden, linkwardenSample, `{"collections":{"links":{"url":1}}}`, `{"links":[[{}],7,{"links":[]}]}`,
		`{"collections":[{"links":[{"url":"x"}],"name":"after"}]}`,
	)
}

func FuzzFirefox(f *testing.F) {
	fuzz(
		f, Firefox, firefoxSample, `{"children":[{"type":"text/x-moz-place","uri":1}],"title":"after"}`, `{"children":"x"}`,
		`{"children":[],"children":[{}]}`,
	)
}

func FuzzChrome(f *testing.F) {
	fuzz(
		f, Chrome, chromeSample, `{"roots":{"a":{"children":[{"type":"url","date_added":"99999999999999999999"}]}}}`,
		`{"roots":7,"meta_info":{}}`, `{"a":{"b":{"type":"url","date_added":"-1"}}}`,
	)
}
