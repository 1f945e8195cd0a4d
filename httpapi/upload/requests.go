package upload

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/record"
)

// queueParams are the parameters of a queue. status is the default status.
func queueParams(status string) []web.Param {
	return []web.Param{
		{
			In: "query", Name: "status", Doc: "Status of the items; default " + status + ".", Schema: web.Ref("UploadState"),
		},
		{
			In: "query", Name: "limit",
			Doc:    "Maximum number of items on a page. A page also ends at 4 MiB. Continue with nextCursor.",
			Schema: web.Object{"type": "integer", "minimum": 1, "maximum": web.MaxPage, "default": web.DefaultPage},
		},
		{
			In: "query", Name: "offset", Doc: "Number of items to skip; not together with cursor.",
			Schema: web.Object{"type": "integer", "minimum": 0, "maximum": web.MaxOffset},
		},
		{
			In: "query", Name: "cursor",
			Doc:    "nextCursor of the previous page. Decisions between two pages do not hide any items.",
			Schema: web.Object{"type": "string"},
		},
	}
}

var requests = &web.Resource[inbox.Request, *inbox.ShownRequest]{
	Name: "upload request", All: inbox.Requests, Load: inbox.ReadRequest, Save: inbox.SaveRequest, Drop: inbox.RemoveRequest,
	Place: func(q *inbox.Request) (record.ID, string) { return q.ID, q.Title },
	Show: func(c *web.Request, tx *kv.Tx, q *inbox.Request) (*inbox.ShownRequest, error) {
		v := &inbox.ShownRequest{Base: c.Site.Base}
		inbox.ShowRequest(tx, q, v)
		return v, nil
	},
}

var ListUploadRequests = web.ListOp(
	"upload-requests", "Lists the caller's upload requests.", "A page of upload requests.", "UploadRequest", requests.List,
)

var CreateUploadRequest = web.CreateOp(
	"upload-requests", "Creates an upload request: a link where others can send files.", "The upload request.",
	"UploadRequest", createUploadRequest, 409,
)

func createUploadRequest(c *web.Request) error {
	form := &inbox.RequestForm{Request: inbox.NewRequest()}
	problems := c.DecodeNew(form)
	var ends error
	if err := record.CheckEnd(form.Expires, c.Site.Store.Now()); err != nil {
		ends = field.Problems{"expiresAt": err.Error()}
	}
	if err := web.JoinProblems(problems, ends); err != nil {
		return err
	}
	form.Finish()
	hash, err := c.Hash(form.Secret)
	if err != nil {
		return err
	}
	return requests.Create(c, func(tx *kv.Tx) (*inbox.Request, error) {
		return inbox.AddRequest(tx, c.Owner(), form, hash)
	})
}

var ReadUploadRequest = web.ReadOp(
	"upload-requests", "Reads an upload request.", "The upload request.", "UploadRequest", requests.Read, 404,
)

var EditUploadRequest = web.EditOp(
	"upload-requests", "Changes an upload request.", "The upload request.", "UploadRequest", editUploadRequest, 404, 409,
)

func editUploadRequest(c *web.Request) error {
	id, err := c.IDArg("upload request")
	if err != nil {
		return err
	}
	form := new(inbox.RequestForm)
	in, err := c.DecodePatch(form)
	if err != nil {
		return err
	}
	hash, err := c.Hash(form.Secret)
	if err != nil {
		return err
	}
	return requests.Edit(c, id, func(_ *kv.Tx, q *inbox.Request) error {
		form := &inbox.RequestForm{Request: *q}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		form.Finish()
		if form.Secret.Said {
			form.Password = hash
		}
		*q = form.Request
		return nil
	})
}

var RemoveUploadRequest = web.DoneOp(
	"upload-requests", "Deletes an upload request and the files waiting in its queue. Approved files stay.",
	requests.Remove, 404,
)

var ListPendingUploads = web.Operation{
	Tag: "upload-requests", Summary: "Lists the files received through all upload requests, oldest first.",
	Args:  queueParams("pending"),
	Reply: web.Reply{Status: 200, Doc: "A page of the queue.", Body: web.ListOf("UploadItem")},
	Serve: listQueue,
}

var ListUploadItems = web.Operation{
	Tag: "upload-requests", Summary: "Lists the files received through one upload request, oldest first.",
	Args:  queueParams("any"),
	Reply: web.Reply{Status: 200, Doc: "A page of the queue.", Body: web.ListOf("UploadItem")},
	Fails: []int{404}, Serve: listQueue,
}

// listQueue lists the items of one request, or the pending ones of all.
func listQueue(c *web.Request) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	q := inbox.Queue{
		Owner: c.Owner(), State: inbox.State(args.Get("status")),
		Limit: args.Number("limit", 1, web.MaxPage, web.DefaultPage), Offset: args.Number("offset", 0, web.MaxOffset, 0),
	}
	p := web.Page{Limit: q.Limit, Cursor: args.Get("cursor"), Sort: catalog.Oldest}
	if p.Cursor != "" && args.Get("offset") != "" {
		args.Refuse("offset cannot be used together with cursor")
	}
	if q.State != "" && !slices.Contains(inbox.States, q.State) {
		args.Refuse("status must be one of: " + web.Join(inbox.States))
	}
	if err := args.Err(); err != nil {
		return err
	}
	if c.Arg("id") == "" {
		q.State = cmp.Or(q.State, inbox.Pending)
	} else {
		q.Request, err = c.IDArg("upload request")
		if err != nil {
			return err
		}
	}
	list := c.R.URL.Path + " " + string(q.State)
	after, err := p.Position(list)
	if err != nil {
		return err
	}
	if len(after) > 0 {
		if len(after) != len(q.After) {
			return web.ErrCursor
		}
		q.After = record.ID(after)
	}
	q.Limit++ // to see whether there is another page
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		var items []*inbox.Item
		var total int64
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			if q.Request != uuid.Nil {
				if _, err := inbox.ReadRequest(tx, q.Owner, q.Request); err != nil {
					return err
				}
			}
			items, total, err = inbox.ListQueue(tx, q)
			return err
		}); err != nil {
			return dst, err
		}
		dst, n := web.AppendPage(append(dst, `{"items":`...), items, p.Limit)
		next := ""
		if n < len(items) {
			next = p.Write(list, items[n-1].ID[:])
		}
		return web.AppendEnd(dst, int(total), next), nil
	})
}

// maxDecided is how many items one request can decide.
const maxDecided = 500

// Decisions is a decision on several items.
type Decisions struct {
	items []string
	inbox.Decision
}

func (d *Decisions) Fields(s *field.Set) {
	s.IDs("items", &d.items, maxDecided, field.Required, field.Filled).Says(
		"Ids of the items.", `["01890a5d-ac96-774b-bcce-b302099a8057"]`,
	)
	d.Decision.Fields(s)
}

var DecideUploads = web.Operation{
	Tag: "upload-requests", Summary: "Approves or rejects pending items, " + strconv.Itoa(maxDecided) + " at most. Either all of them are decided, or none.",
	Body:  web.BodyOf("UploadDecisions"),
	Reply: web.Reply{Status: 200, Doc: "The items, in the order given.", Body: web.BodyOf("UploadItemsDecided")},
	Fails: []int{404, 409}, Serve: decideUploads,
}

func decideUploads(c *web.Request) error {
	request, err := c.IDArg("upload request")
	if err != nil {
		return err
	}
	form := new(Decisions)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	var ids []record.ID
	for _, t := range form.items {
		if id := uuid.MustParse(t); !slices.Contains(ids, id) { // the form has checked them
			ids = append(ids, id)
		}
	}
	var all []*inbox.Item
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		if _, err := inbox.ReadRequest(tx, c.Owner(), request); err != nil {
			return err
		}
		all, err = inbox.DecideAll(tx, c.Owner(), request, ids, &form.Decision)
		return err
	}); err != nil {
		return err
	}
	return web.RespondWhole(c, all, `{"items":`, "}")
}

// place reads which item is in the path.
func place(c *web.Request) (request, item record.ID, err error) {
	request, err = c.IDArg("upload request")
	if err != nil {
		return uuid.Nil, uuid.Nil, err
	}
	item, err = uuid.Parse(c.Arg("itemId"))
	if err != nil {
		return uuid.Nil, uuid.Nil, record.NotFound("upload")
	}
	return request, item, nil
}

var DecideUpload = web.Operation{
	Tag: "upload-requests", Summary: "Approves a pending item, which turns it into a file, or rejects it.",
	Body:  web.BodyOf("UploadDecision"),
	Reply: web.Reply{Status: 200, Doc: "The item.", Body: web.DataOf("UploadItem")},
	Fails: []int{404, 409},
	Serve: decideUpload,
}

func decideUpload(c *web.Request) error {
	request, item, err := place(c)
	if err != nil {
		return err
	}
	decision := new(inbox.Decision)
	if err := c.DecodeNew(decision); err != nil {
		return err
	}
	var i *inbox.Item
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		i, err = inbox.Decide(tx, c.Owner(), request, item, decision)
		return err
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, i)
}

var ReadUploadContent = web.Operation{
	Tag: "upload-requests", Summary: "The bytes of a pending item; only for its owner.",
	Args:  web.Conditional,
	Reply: web.Reply{Status: 200, Doc: "The content.", Body: web.BytesOf()},
	Fails: []int{206, 304, 404, 412, 416, 503},
	Serve: readUploadContent,
}

// readUploadContent shows the owner a pending item. It has the same headers as all stored bytes,
// because it may be hostile and nobody has checked it.
func readUploadContent(c *web.Request) error {
	request, item, err := place(c)
	if err != nil {
		return err
	}
	var i *inbox.Item
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		i, err = inbox.ReadItem(tx, c.Owner(), request, item)
		return err
	}); err != nil {
		return err
	}
	if i.State != inbox.Pending {
		return record.NotFound("content")
	}
	f, err := public.Stored(c, i.Ref, i.Size)
	err = public.Unreadable(c, i.ID, true, err)
	if kv.Missing(err) {
		return record.NotFound("content")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h := c.W.Header()
	web.SetContentHeaders(h, i.MimeType, public.CharsetOf(c, i.Ref, i.MimeType), i.Name, public.AsDownload(c), false)
	h.Set("Etag", `"`+hex.EncodeToString(i.Ref[:])+`"`)
	h.Set("Cache-Control", "private, no-store")
	return public.SendContent(c, f, i.Size, func(status int) error { return public.Refusal(c, status, i.Size) })
}
