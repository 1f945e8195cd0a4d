package apitest

const BrowserBookmarks = `<!DOCTYPE NETSCAPE-Bookmark-file-1>
<DL><DT><H3>Reading</H3><DL>
<DT><A HREF="https://go.dev/" ADD_DATE="1600000000">Go</A>
<DT><A HREF="javascript:alert(1)">evil</A></DL></DL>`

// runImport sends a file to be imported, with another key if one is named.
func (a *App) MoveIn(fields map[string]string, name, content string, key ...string) *Answer {
	a.Helper()
	q := a.UploadRequest(fields, File(name, "", content))
	q.Path = "/api/v1/import"
	if len(key) > 0 {
		q.Key = key[0]
	}
	return a.Do(q)
}

// MovedIn waits for the end of the import that was answered with.
func (a *App) MovedIn(begun *Answer) *Answer {
	a.Helper()
	var now *Answer
	Eventually(a.TB, "the import does not end", func() bool {
		now = a.Get("/api/v1/import/" + begun.Want(202).Text("data.id")).Want(200)
		return now.Text("data.state") != "running"
	})
	return now
}
