package format

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

const yourlsCSV = "keyword,url,title,timestamp,ip,clicks\n" +
	"abc,https://example.org/a,\"A, title\",2020-01-02 03:04:05,192.0.2.1,77\n" +
	"a+b,https://example.org/b,,2020-01-02 03:04:05,192.0.2.1,0\n"

const yourlsJSON = `{"links":{
 "link_1":{"shorturl":"https://s.test/1f","url":"https://example.org/a","title":"A","timestamp":"2020-01-02 03:04:05","ip":"192.0.2.1","clicks":"123"},
 "link_2":{"shorturl":"https://s.test/2f","url":"https://example.org/b","title":"","timestamp":"soon","clicks":"0"}},
 "stats":{"total_links":"2","total_clicks":"123"},"statusCode":200,"message":"success"}`

const kuttJSON = `{"limit":10,"skip":0,"total":2,"data":[
 {"id":"7a0b9c44","address":"abc","banned":false,"created_at":"2020-01-02T03:04:05.000Z","updated_at":"2020-01-03T03:04:05.000Z","link":"https://kutt.test/abc","meta":false,"password":false,"target":"https://example.org/a","visit_count":12,"description":"A","expire_in":null},
 {"id":"7a0b9c45","address":"def","banned":false,"created_at":"2020-01-02T03:04:05.000Z","link":"https://kutt.test/def","password":true,"target":"https://example.org/b","visit_count":0}]}`

const kuttCSV = "address,target,description,password,visit_count,created_at\n" +
	"abc,https://example.org/a,A,false,12,2020-01-02T03:04:05.000Z\n" +
	"def,https://example.org/b,,true,,\n"

const bitlyCSV = "Created,Title,Long URL,Bitlink,Custom Bitlink,Tags,Engagements\n" +
	"2020-01-02T03:04:05+0000,A,https://example.org/a,https://bit.ly/3aBcD,bit.ly/news,\"x,y\",12\n" +
	"2020-01-02T03:04:05+0000,,https://example.org/b,bit.ly/3aBcE,,,many\n"

const bitlyJSON = `{"links":[
 {"created_at":"2020-01-02T03:04:05+0000","id":"bit.ly/3aBcD","link":"https://bit.ly/3aBcD","custom_bitlinks":["https://bit.ly/news","https://bit.ly/more"],"long_url":"https://example.org/a","title":"A","archived":false,"tags":["x","y"],"deeplinks":[],"references":{"group":"https://api-ssl.bitly.com/v4/groups/1"}},
 {"created_at":"2020-01-02T03:04:05+0000","link":"https://bit.ly/3aBcE","custom_bitlinks":[],"long_url":"https://example.org/b"}],
 "pagination":{"next":"","size":50}}`

const shlinkJSON = `{"shortUrls":{"data":[
 {"shortCode":"abc","shortUrl":"https://s.test/abc","longUrl":"https://example.org/a","dateCreated":"2020-01-02T03:04:05+01:00","visitsSummary":{"total":328,"nonBots":1,"bots":2},"tags":["x"],"meta":{"validSince":null,"validUntil":null,"maxVisits":null},"domain":null,"title":"A","crawlable":false,"forwardQuery":true},
 {"shortCode":"def","shortUrl":"https://s.test/def","longUrl":"https://example.org/b","meta":{"maxVisits":3}}],
 "pagination":{"currentPage":1,"pagesCount":1}}}`

const shortCSV = "slug;destination;clicks\nabc;https://example.org/a;4\n"

const grouveeCSV = "id,name,shelves,platforms,rating,review,dates,statuses,genres,url\n" +
	`33,"The ""Elder"" One","{""Played"": {""date_added"": ""2021-10-02T06:54:47Z"", ""order"": 1}, ""Co-op"": {}, ""Backlog"": {""date_added"": ""2020-10-02T06:54:47Z""}}",` +
	`"{""PC"": {""url"": ""https://games.example/pc""}, ""Mac"": {}}",4,Good,"[{""date_started"": ""2020-01-02"", ""date_finished"": ""None"", ""seconds_played"": 7260, ""level_of_completion"": ""Main Story""}]",[],"{""RPG"": {}}",https://games.example/33` + "\n" +
	`34,Other,{},{},,,[],[],{},` + "\n" +
	`35,Wrong,not JSON,"{""PC"": {}}",9,,x,[],,` + "\n"

const grouveeJSON = `[{"id":33,"name":"One","shelves":{"Playing":{"date_added":"2021-10-02T06:54:47Z"}},"platforms":{"PlayStation 2":{}},"rating":5,"review_title":"Fine","review":"Text","dates":[{"date_started":"None","date_finished":"None","seconds_played":0}],"igdb_id":379},
 {"name":"Two","shelves":{"Wish List":{}},"platforms":{},"rating":null}]`

const playniteCSV = "Name,Platforms,Completion Status,User Score,Time Played,Notes,Tags,Categories,Favorite,Added,Hidden,Genres\n" +
	"One,PC (Windows),Beaten,85,7260,A note,\"x, y\",Shelf,True,2021-10-02 06:54:47,False,RPG\n" +
	"Two,,On Hold,101,soon,,,,False,10/2/2021 6:54:47 AM,True,\n" +
	"Three,,Not Played,,0,,,,,,,\n"

// TestLists: a list of short links or games is read as that, and not as bookmarks.
func TestLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		format Format
		data   string
		want   []string
	}{
		{"YOURLS", YOURLS, yourlsCSV, []string{
			`line 2: shortlink {"description":"A, title","isPublic":true,"originalUrl":"https://example.org/a","slug":"abc"} 2020-01-02T03:04:05Z 77 views`,
			`line 3: shortlink {"isPublic":true,"originalUrl":"https://example.org/b","slug":"a+b"} 2020-01-02T03:04:05Z`,
			`column "ip": ` + many(2),
		}},
		{"YOURLS in JSON", YOURLS, yourlsJSON, []string{
			`entry 1: shortlink {"description":"A","isPublic":true,"originalUrl":"https://example.org/a","slug":"1f"} 2020-01-02T03:04:05Z 123 views`,
			`entry 2: shortlink {"isPublic":true,"originalUrl":"https://example.org/b","slug":"2f"}`,
			`member "document.stats": ` + once, `member "ip": ` + once, `member "timestamp": ` + once,
		}},
		{"Kutt in JSON", Kutt, kuttJSON, []string{
			`entry 1: shortlink {"description":"A","isPublic":true,"originalUrl":"https://example.org/a","slug":"abc"} 2020-01-02T03:04:05Z 12 views`,
			`entry 2: shortlink {"originalUrl":"https://example.org/b","slug":"def"} 2020-01-02T03:04:05Z (It had a password, an end or a limit there, which is not imported. So it is private.)`,
			`member "id": ` + many(2), `member "link": ` + many(2), `member "password": ` + once,
		}},
		{"Kutt", Kutt, kuttCSV, []string{
			`line 2: shortlink {"description":"A","isPublic":true,"originalUrl":"https://example.org/a","slug":"abc"} 2020-01-02T03:04:05Z 12 views`,
			`line 3: shortlink {"originalUrl":"https://example.org/b","slug":"def"} (It had a password, an end or a limit there, which is not imported. So it is private.)`,
			`column "password": ` + many(2),
		}},
		{"Bitly", Bitly, bitlyCSV, []string{
			`line 2: shortlink {"description":"A","isPublic":true,"originalUrl":"https://example.org/a","slug":"news","tags":["x","y"]} 2020-01-02T03:04:05Z 12 views`,
			`line 3: shortlink {"isPublic":true,"originalUrl":"https://example.org/b","slug":"3aBcE"} 2020-01-02T03:04:05Z (The visits "many" are not a number.)`,
			`column "Bitlink": ` + once,
		}},
		{"Bitly in JSON", Bitly, bitlyJSON, []string{
			`entry 1: shortlink {"description":"A","isPublic":true,"originalUrl":"https://example.org/a","slug":"news","tags":["x","y"]} 2020-01-02T03:04:05Z (Only one of its short addresses is kept.)`,
			`entry 2: shortlink {"isPublic":true,"originalUrl":"https://example.org/b","slug":"3aBcE"} 2020-01-02T03:04:05Z`,
			`member "document.pagination": ` + once, `member "id": ` + once, `member "link": ` + once, `member "references": ` + once,
		}},
		{"Shlink in JSON", Shlink, shlinkJSON, []string{
			`entry 1: shortlink {"description":"A","isPublic":true,"originalUrl":"https://example.org/a","slug":"abc","tags":["x"]} 2020-01-02T02:04:05Z 328 views`,
			`entry 2: shortlink {"originalUrl":"https://example.org/b","slug":"def"} (It had a password, an end or a limit there, which is not imported. So it is private.)`,
			`member "folder.pagination": ` + once, `member "visitsSummary.bots": ` + once,
			`member "visitsSummary.nonBots": ` + once, `member "forwardQuery": ` + once, `member "shortUrl": ` + many(2),
			`member "meta.maxVisits": ` + once,
		}},
		{"other short links", ShortLinks, shortCSV, []string{
			`line 2: shortlink {"isPublic":true,"originalUrl":"https://example.org/a","slug":"abc"} 4 views`,
		}},
		{"Grouvee", Grouvee, grouveeCSV, []string{
			`line 2: game {"notes":"Good\n\n2020-01-02 – (Main Story)","platform":"Mac, PC","playtimeMinutes":121,"rating":8,"status":"finished","tags":["Co-op"],"title":"The \"Elder\" One"} 2020-10-02T06:54:47Z`,
			`line 3: game {"title":"Other"}`,
			`line 4: game {"platform":"PC","title":"Wrong"} (The rating "9" is not from 0 to 5.)`,
			`column "genres": ` + many(2), `column "id": ` + many(3), `column "url": ` + once, `column "dates": ` + once, `column "shelves": ` + once,
		}},
		{"Grouvee in JSON", Grouvee, grouveeJSON, []string{
			`entry 1: game {"notes":"Fine\n\nText","platform":"PlayStation 2","rating":10,"status":"playing","title":"One"} 2021-10-02T06:54:47Z`,
			`entry 2: game {"status":"wishlist","title":"Two"}`,
			`member "id": ` + once, `member "igdb_id": ` + once,
		}},
		{"Playnite", Playnite, playniteCSV, []string{
			`line 2: game {"isFavorite":true,"notes":"A note","platform":"PC (Windows)","playtimeMinutes":121,"rating":9,"status":"finished","tags":["x","y","Shelf"],"title":"One"} 2021-10-02T06:54:47Z`,
			`line 3: game {"title":"Two"} (The state "On Hold" is not imported.) (The rating "101" is not from 0 to 100.) (The time played "soon" is not a number of seconds.)`,
			`line 4: game {"status":"backlog","title":"Three"}`,
			`column "Hidden": ` + many(2), `column "Genres": ` + once, `column "Added": ` + once,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			found, err := Detect(source(c.data))
			is.NoErr(err)
			is.Equal(found, c.format)
			got := rowsOf(c.format, source(c.data))
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestOtherTables: a table that is no list of bookmarks is refused, also if it has
// a column of addresses. The refusal names its columns.
func TestOtherTables(t *testing.T) {
	t.Parallel()
	for _, columns := range []string{
		"name,url,username,password,note",                       // passwords
		"url,username,password,httpRealm,formActionOrigin,guid", // passwords of Firefox
		"Const,Your Rating,Title,URL,Title Type,IMDb Rating",    // films
		"title,author,isbn,url",                                 // books
		"id,game,url,rating,category,platforms",                 // games of a site without a state
		"name,phone",
	} {
		is := is.New(t)
		_, err := Detect(source(columns + "\n1,2,3,4\n"))
		first, _, _ := strings.Cut(columns, ",")
		is.True(err != nil)
		is.True(strings.HasPrefix(err.Error(), `It is a table with the columns "`+first+`", "`))
		is.True(strings.HasSuffix(err.Error(), "Known formats: "+known()+". Most programs can also export bookmarks as HTML: import that."))
	}
	for _, columns := range []string{"url", "name,url,keyword", "title,url,rating", "url,title,description,tags,created"} {
		is := is.New(t)
		found, err := Detect(source(columns + "\nhttps://example.org,2,3,4\n"))
		is.NoErr(err)
		is.Equal(found, CSV)
	}
}

func FuzzShortLinks(f *testing.F) {
	fuzz(
		f, ShortLinks, yourlsCSV, yourlsJSON, kuttJSON, kuttCSV, bitlyCSV, bitlyJSON, shlinkJSON, shortCSV,
		`[{"link":"https://s.test/","meta":{"a":1}}]`, `{"data":[{"clicks":"-1","custom_bitlinks":[""]}]}`,
		"target,link\nx,/\n", `{"link_":{"link_":{}}}`,
	)
}

func FuzzGrouvee(f *testing.F) {
	fuzz(
		f, Grouvee, grouveeCSV, grouveeJSON, "name,shelves,dates\n,\"{\"\"\"\":[]}\",\"[{}]\"\n",
		`[{"shelves":{"Played":7},"rating":1e300,"dates":[{"seconds_played":1e300}]}]`,
	)
}

func FuzzPlaynite(f *testing.F) {
	fuzz(f, Playnite, playniteCSV, "name,user score,time played\nx,NaN,NaN\ny,-0,1e400\n", "Name;Playtime\n;\n")
}
