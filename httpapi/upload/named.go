package upload

import (
	"mime"
	"net/http"

	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// UploadNamed is for programs that send nothing but the bytes, as curl does with -T.
var UploadNamed = web.Operation{
	Tag: "files",
	Summary: "Uploads a file under a name. The body is its bytes. The type is worked out as for other uploads. Fields of " +
		"an upload other than the password may be in the query.",
	Args: append([]web.Param{web.IdempotencyArg}, queryFields...), Body: web.BytesOf(),
	Reply: web.Reply{Status: http.StatusCreated, Doc: "The record of the file.", Body: web.BodyOf("Uploaded")},
	Fails: []int{409, 415},
	Plain: web.BareAddress, Headers: []string{"Location"}, Serve: uploadNamed,
}

// queryFields are the fields of an upload that may be in the query. Addresses are logged, so a password may not.
var queryFields = []web.Param{
	inQuery("isPublic", "Whether anyone with the address may see the file.", "boolean"),
	inQuery("slug", "The end of its address.", "string"),
	inQuery("description", "Free text.", "string"),
	inQuery("folderName", "Folder to put it in, which is created if it is missing.", "string"),
	inQuery("newTags", "Tags to attach, by name, separated by commas.", "string"),
	inQuery("maxViews", "How many views visitors have.", "integer"),
	inQuery("maxViewsAction", "What happens after the last view: make_private or delete.", "string"),
	inQuery("expiresAt", "When visitors can no longer open it.", "string"),
	inQuery("expiryAction", "What happens then: hide, or delete for good.", "string"),
}

func inQuery(name, doc, of string) web.Param {
	return web.Param{In: "query", Name: name, Doc: doc, Schema: web.Object{"type": of}}
}

// uploadNamed takes the body as a file with the name in the path.
func uploadNamed(c *web.Request) error { return addUpload(c, (*Intake).takeNamed) }

func (in *Intake) takeNamed(c *web.Request, budget *Budget) (field.Object, error) {
	query, err := c.Query()
	if err != nil {
		return nil, err
	}
	if err := checkBody(c); err != nil {
		return nil, err
	}
	f := &File{Name: media.FileName(c.Arg("name")), Claimed: c.R.Header.Get("Content-Type")}
	kind, _, _ := mime.ParseMediaType(f.Claimed)
	if kind == web.MultipartForm.Media { // it would be stored as the file
		return nil, &record.Error{
			Fault: record.WrongType, Code: "unsupported_media_type",
			Text: "The body must be the bytes of the file. Send a form with POST to " + web.APIPath + "upload.",
		}
	}
	fields := field.Object{}
	for _, p := range queryFields {
		switch all := query[p.Name]; len(all) {
		case 0:
		case 1:
			fields[p.Name] = all[0]
		default:
			return nil, record.Bad(map[string]string{p.Name: "must be given once"})
		}
	}
	return fields, in.takeBytes(c, f, budget)
}
