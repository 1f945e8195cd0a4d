package apitest

// shareSheet sends the request of a phone's share sheet.
func (a *App) ShareSheet(fields map[string]string, files ...Part) ApiRequest {
	q := a.UploadRequest(fields, files...)
	q.Path = "/share"
	return q
}
