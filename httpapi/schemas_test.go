package httpapi_test

import (
	"encoding/json"
	"strings"

	"kist/httpapi/api"
	"kist/httpapi/captcha"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/record"
)

// The schemas of the document that are not those of a shape alone, with their examples.
// An operation refers to them by name.

// personal are the members of requests without an example: they name what only the reader has,
// they must differ each time, or they hide and end what was made. Required ones have an example.
var personal = wordSet(
	"slug", "newSlug", "folderId", "tagIds", "addTagIds", "removeTagIds", "cover", "photoId", "coverId", "collectionId",
	"password", "currentPassword", "secret", "expiresAt", "expiryAction", "maxViews", "maxClicks", "maxViewsAction",
	"logVisits", "keepVersion", "addTags", "removeTags", "newTags", "revoke", "disabled", "isActive", "update", "isPublic",
	"collections",
)

func wordSet(words ...string) map[string]bool {
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return set
}

// requestExamples are the examples of bodies that hold one of several things, or whose names must
// differ from those that other examples make.
var requestExamples = map[string]web.Object{
	"Bulk":         {"ids": []string{"01890a5d-ac96-774b-bcce-b302099a8057"}, "action": "trash"},
	"Confirm":      {"password": "correct horse battery"},
	"FolderCreate": {"name": "Garden", "color": "#3B82F6"},
	"FolderEdit":   {"name": "Garden", "color": "#3B82F6"},
	"MeEdit":       {"displayName": "Ann"},
	"SecondFactor": {"ticket": "2mUq…", "code": "123456"},
	"SettingsEdit": {"trashDays": 30},
	"TagCreate":    {"name": "garden", "color": "#3B82F6"},
	"TagEdit":      {"name": "garden", "color": "#3B82F6"},
	"UserCreate": {
		"username": "bob", "password": "correct horse battery", "displayName": "Bob", "role": "user",
	},
	"UserEdit": {"displayName": "Bob"},
}

// A schema describes a body. An example of nil is made from the schema.
type schema struct {
	of      web.Object
	example any
}

func members(of web.Object, required ...string) web.Object {
	out := web.Object{"type": "object", "properties": of}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// allOf is the schema of a list of named schemas.
func allOf(name string) web.Object {
	return web.Object{"type": "array", "description": "The list, or a page of it.", "items": web.Ref(name)}
}

var (
	wholeTotal = web.Object{
		"type": "integer", "format": "int64", "description": "Number of entries in the whole list.", "example": 1,
	}
	nextCursor = web.Object{
		"type": "string", "nullable": true, "example": nil, "description": "Cursor of the next page; null at the end.",
	}
)

// schemaNamed is the schema of a JSON body with the name. If it is not in the table, it is
// the answer with a thing or a page of things, or a shape.
func (d *document) schemaNamed(name string) schema {
	if s, ok := bodySchemas()[name]; ok {
		return s
	}
	if of, ok := strings.CutSuffix(name, "Answer"); ok {
		return schema{members(web.Object{"data": web.Ref(of)}, "data"), nil}
	}
	if of, ok := strings.CutSuffix(name, "List"); ok {
		return schema{
			members(web.Object{"data": allOf(of), "total": wholeTotal, "nextCursor": nextCursor}, "data", "total", "nextCursor"),
			nil,
		}
	}
	return schema{d.schemas[name].(web.Object), nil}
}

// kindRefs refers to the records that can be in a collection.
func kindRefs() (all []web.Object) {
	for _, k := range record.Kinds {
		if k != record.Collections {
			all = append(all, web.Ref(web.Title(k.Name)))
		}
	}
	return all
}

// schemaOfBody is the schema of a body without a name: a form by its operation, others by
// their type.
func schemaOfBody(op string, c *web.Content) schema {
	switch {
	case c.Media == "multipart/form-data":
		return map[string]schema{"uploadFiles": uploadForm(), "leaveFiles": senderForm(), "startImport": importForm()}[op]
	case c.Media == "image/svg+xml":
		return schema{web.Object{"type": "string"}, "<svg …>"}
	}
	return schema{web.Object{"type": "string", "format": "binary"}, "…"}
}

// bodySchemas are the schemas of JSON bodies by name.
func bodySchemas() map[string]schema {
	text, number, uri := web.Object{"type": "string"}, web.Object{"type": "integer"}, web.Object{"type": "string", "format": "uri"}
	all := map[string]schema{
		"Document": {web.Object{"type": "object", "additionalProperties": true}, web.Object{"openapi": "3.0.3"}},
		"Done": {
			members(web.Object{"ok": web.Object{"type": "boolean", "enum": []bool{true}}}, "ok"), web.Object{"ok": true},
		},
		"TagList": {allOf("Tag"), nil},

		"KeyCreated": created("Key", "key", web.Object{"type": "string", "example": "kist_…"}),
		"SearchResultList": {members(web.Object{
			"data":       allOf("SearchResult"),
			"total":      wholeTotal,
			"nextCursor": nextCursor,
			"incomplete": web.Object{
				"type":        "boolean",
				"description": "Whether there may be more results: the index is being built, and not all records could be read in time.",
			},
			"tookMs": web.Object{"type": "number", "description": "Duration of the search in milliseconds.", "example": 1.25},
		}, "data", "total", "nextCursor", "incomplete", "tookMs"), nil},

		"BulkDone": {members(web.Object{"data": web.Object{"type": "array", "description": "What became of each item, in the order given.", "items": members(web.Object{
			"id": web.Object{"type": "string", "format": "uuid", "description": "Id of the item."},
			"ok": web.Object{"type": "boolean", "description": "Whether it was changed."},
			"error": web.Object{
				"type": "string", "description": "Why it was not, as a sentence for a person; absent if it was.",
			},
			"code": web.Object{"type": "string", "description": "Why it was not, as a word for a program; absent if it was."},
		}, "id", "ok")}}, "data"), web.Object{
			"data": []web.Object{{"id": "01890a5d-ac96-774b-bcce-b302099a8057", "ok": true}},
		}},
		"TrashRestored": {members(web.Object{"data": allOf("Restored")}, "data"), nil},
		"CollectedItemList": {members(web.Object{
			"data": web.Object{
				"type": "array", "description": "The list, or a page of it.", "items": web.Object{"oneOf": kindRefs()},
			},
			"leftOut": allOf("LeftOut"), "total": wholeTotal, "nextCursor": nextCursor,
		}, "data", "leftOut", "total", "nextCursor"), nil},

		"WebhookAnswer": {
			members(web.Object{"webhook": web.Ref("Webhook"), "data": web.Ref("Webhook")}, "webhook", "data"), nil,
		},
		"WebhookList": {members(web.Object{"webhooks": allOf("Webhook"), "data": allOf("Webhook")}, "webhooks", "data"), nil},
		"WebhookTest": {members(web.Object{
			"ok":     web.Object{"type": "boolean", "description": "Whether the target accepted the delivery."},
			"status": web.Object{"type": "integer", "description": "Status of the target's answer; 0 if it did not answer."},
			"error":  web.Object{"type": "string", "description": "The error; absent if there was none."},
		}, "ok", "status"), web.Object{
			"ok": false, "status": 500, "error": "The target answered 500 Internal Server Error.",
		}},

		"CodesOffer": {members(web.Object{"secret": text, "uri": uri, "qr": uri}, "secret", "uri", "qr"), web.Object{
			"secret": "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", "uri": "otpauth://totp/kist.example.org:ann?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=kist.example.org", "qr": "data:image/svg+xml;base64,PHN2Zy8+",
		}},
		"Reset": {members(web.Object{
			"url": uri, "expiresAt": web.Object{"type": "string", "format": "date-time"},
			"devicesEnded": web.Object{"type": "integer", "description": "Number of connected devices whose keys were revoked."},
			"keysRevoked":  web.Object{"type": "integer", "description": "Number of other API keys that were revoked."},
			"keysKept":     web.Object{"type": "integer", "description": "Number of API keys that still work."},
		}, "url", "expiresAt", "devicesEnded", "keysRevoked", "keysKept"), web.Object{
			"url": "https://kist.example.org/login/reset/AZClBcDf", "expiresAt": "2026-01-03T03:04:05.678Z",
			"devicesEnded": 2, "keysRevoked": 0, "keysKept": 1,
		}},
		"InvitationCreated": created("Invitation", "url", web.Object{
			"type": "string", "format": "uri", "description": "The link to send.",
			"example": "https://kist.example.org/join/AZClBcDf",
		}),
		"PasskeyRequest": {members(web.Object{
			"ticket": web.Object{"type": "string", "description": "The ticket to send with the answer, within five minutes."},
			"passkey": web.Object{
				"type": "object", "additionalProperties": true,
				"description": "Options for navigator.credentials.get or create, with bytes as base64url.",
			},
		}, "ticket", "passkey"), web.Object{
			"ticket":  "2mUq…",
			"passkey": web.Object{"challenge": "J3…", "rpId": "kist.example.org", "userVerification": "required"},
		}},
		"PasskeyCreated": created(
			"Passkey", "recoveryCodes", web.Object{"type": "array", "items": text, "example": []string{}},
		),
		"RecoveryCodes": {
			members(web.Object{"recoveryCodes": web.Object{"type": "array", "items": text}}, "recoveryCodes"),
			web.Object{"recoveryCodes": []string{"BCDF-GHJK-LMNP-QRST"}},
		},
		"DeviceCodes": {members(web.Object{
			"device_code": text, "user_code": text, "verification_uri": uri, "verification_uri_complete": uri, "expires_in": number, "interval": number,
		}, "device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"), web.Object{
			"device_code": "…", "user_code": "BCDF-GHJK", "verification_uri": "https://kist.example.org/device",
			"verification_uri_complete": "https://kist.example.org/device?user_code=BCDF-GHJK", "expires_in": 600, "interval": 5,
		}},
		"DeviceKey": {members(web.Object{
			"token_type": text, "api_key": text, "access_token": text, "scope": text, "expires_in": number, "interval": number,
		}, "token_type", "api_key", "access_token", "scope", "expires_in", "interval"), web.Object{
			"token_type": "ApiKey", "api_key": "kist_…", "access_token": "kist_…", "scope": "read write upload",
			"expires_in": 2592000, "interval": 5,
		}},
		"CaptchaChallenges": {web.Object{
			"oneOf": []web.Object{web.Ref("CaptchaChallenge"), web.Ref("CaptchaChallenge2")},
		}, web.Object{
			"algorithm": "SHA-256", "challenge": "2ad2cf53fd4c3b33…", "maxnumber": captcha.PowMax, "salt": "5d9f0ad4c1e2b7a38f604c2d?expires=1767348000&", "signature": "91b1c3f07c5d…",
		}},
		"CaptchaPass": {members(web.Object{
			"ok": web.Object{"type": "boolean"}, "pass": web.Object{"type": "string"}, "expiresAt": web.Object{"type": "string", "format": "date-time"},
		}, "ok", "pass", "expiresAt"), web.Object{"ok": true, "pass": "AAABm4…", "expiresAt": "2026-01-02T03:14:05.678Z"}},

		"UploadLink":        {linkSchema(), linkExample},
		"SentFileList":      {members(web.Object{"items": allOf("SentFile")}, "items"), nil},
		"UploadReceiptList": {members(web.Object{"items": allOf("UploadReceipt")}, "items"), nil},
		"UploadItemList": {
			members(
				web.Object{"items": allOf("UploadItem"), "total": wholeTotal, "nextCursor": nextCursor}, "items", "total",
				"nextCursor",
			),
			nil,
		},
		"UploadItemsDecided":   {members(web.Object{"items": allOf("UploadItem")}, "items"), nil},
		"UploadDecisions":      {shapeOf(new(upload.Decisions), creating), nil},
		"Uploaded":             {web.Object{"oneOf": []web.Object{web.Ref("UploadedFile"), web.Ref("UploadedFiles")}}, nil},
		"RemoteUploadCreate":   {remoteSchema(), web.Object{"url": "https://example.org/holiday.mp4", "isPublic": true}},
		"RemoteUploadDecision": {shapeOf(new(upload.FetchAction), creating), nil},
		"RemoteUploadList":     {members(web.Object{"jobs": allOf("RemoteUpload")}, "jobs"), nil},
		"ResumableUploadAnswer": {members(web.Object{
			"data": web.Ref("ResumableUpload"),
			"file": web.Object{
				"allOf": []web.Object{web.Ref("MaybeFile")}, "description": "The resulting file, once the upload is complete.",
				"example": nil,
			},
		}, "data", "file"), nil},
		"SentUploadAnswer": {members(web.Object{
			"data": web.Ref("SentUpload"),
			"item": web.Object{
				"type": "object", "required": []string{"itemId", "status", "takeBack"}, "nullable": true, "example": nil,
				"description": "The resulting item, as it was when it was received; null before the upload is complete.",
				"properties": web.Object{
					"itemId": web.Object{"type": "string", "format": "uuid", "description": "Its id."},
					"status": web.Object{
						"allOf": []web.Object{web.Ref("UploadState")}, "description": "Whether it is waiting for approval.",
					},
					"takeBack": web.Object{
						"type": "string", "description": "Secret to see the file again and to take it back, for an hour.",
					},
				},
			},
		}, "data", "item"), nil},
	}
	for _, k := range record.Kinds {
		all[web.Title(k.Name)+"Created"] = createdOf(k)
	}
	return all
}

// created is the answer to a creation, with one more member.
func created(name, beside string, as web.Object) schema {
	return schema{members(web.Object{"data": web.Ref(name), beside: as}, "data", beside), nil}
}

// createdOf is the answer to the creation of a record.
func createdOf(k *record.Kind) schema {
	c := created(
		web.Title(k.Name), "url",
		web.Object{
			"type": "string", "format": "uri", "description": "Address for others.",
			"example": "https://kist.example.org/v/summer-24",
		},
	)
	of, needed := c.of["properties"].(web.Object), []string{"data", "url", "deletionUrl"}
	of["deletionUrl"] = deletionLink()
	if k == record.Bookmarks {
		of["duplicateOf"] = web.Object{
			"type": "array", "items": shapeOf(new(web.Duplicate), showing), "example": []any{},
			"description": "Older bookmarks of the same page, oldest first, at most ten.",
		}
		needed = append(needed, "duplicateOf")
	}
	c.of["required"] = needed
	return c
}

// formOf is a form with the shape and the file. A form cannot hold null.
func formOf(v field.Shaped, file web.Object) schema {
	of := shapeOf(v, creating)
	all := of["properties"].(web.Object)
	for name, member := range all {
		all[name] = neverNull(member.(web.Object))
	}
	all["file"] = file
	of["required"] = []string{"file"}
	return schema{of, nil}
}

// neverNull is the schema without null. A word is a reference alone: with a description around it,
// ogen sends it as JSON.
func neverNull(s web.Object) web.Object {
	delete(s, "nullable")
	parts, _ := s["allOf"].([]web.Object)
	if len(parts) != 1 {
		return s
	}
	if e, ok := parts[0]["$ref"].(web.EnumRef); ok {
		return web.EnumOf(e.Words, false)
	}
	return parts[0]
}

func uploadForm() schema {
	return formOf(
		record.Upload{Form: record.NewForm(record.Files)},
		web.Object{
			"type": "array", "items": web.Object{"type": "string", "format": "binary"},
			"description": "The content. Several parts become several files, 300 at most.", "example": []string{"…"},
		},
	)
}

func senderForm() schema {
	return formOf(
		new(inbox.SenderForm),
		web.Object{
			"type": "array", "items": web.Object{"type": "string", "format": "binary"},
			"description": "The content. Several parts become several items, 300 at most.", "example": []string{"…"},
		},
	)
}

func importForm() schema {
	return formOf(
		new(api.ImportForm),
		web.Object{"type": "string", "format": "binary", "description": "The exported file.", "example": "…"},
	)
}

func linkSchema() web.Object {
	text, flag, count := web.Object{"type": "string"}, web.Object{"type": "boolean"}, web.Object{"type": "integer", "nullable": true}
	return members(web.Object{
		"title": text, "requiresPassword": flag, "authorized": flag,
		"captcha": web.Object{
			"type": "object", "nullable": true, "required": []string{"provider"}, "description": "The captcha to solve; null means none.",
			"properties": web.Object{
				"provider": text, "siteKey": text, "challengeUrl": web.Object{"type": "string", "format": "uri"},
			},
		},
		"description": text, "owner": members(
			web.Object{"displayName": text}, "displayName",
		), "isActive": flag, "requiresApproval": flag, "requiresName": flag,
		"expiresAt": web.Object{"type": "string", "format": "date-time", "nullable": true},
		"limits": members(
			web.Object{
				"maxFileSize": count, "maxUploads": count, "remainingUploads": count,
				"allowedTypes": web.Object{"type": "array", "items": text},
			},
			"maxFileSize", "maxUploads", "remainingUploads", "allowedTypes",
		),
		"brandColor": text,
	}, "title", "requiresPassword", "authorized", "captcha")
}

var linkExample = web.Object{
	"title": "Photos of the wedding", "requiresPassword": false, "authorized": true, "captcha": nil, "description": "The originals, please.",
	"owner": web.Object{"displayName": "Ann"}, "isActive": true, "requiresApproval": true, "requiresName": false, "expiresAt": "2030-01-01T00:00:00.000Z",
	"limits": web.Object{
		"maxFileSize": 104857600, "maxUploads": 100, "remainingUploads": 93, "allowedTypes": []string{"image/*"},
	}, "brandColor": "#0F6B5C",
}

// remoteSchema is the body of a request for remote uploads.
func remoteSchema() web.Object {
	item := shapeOf(upload.NewRemoteForm(), creating)
	whole := shapeOf(upload.NewRemoteForm(), creating)
	delete(whole, "required")
	of := whole["properties"].(web.Object)
	of["url"].(web.Object)["nullable"] = true
	of["urls"] = web.Object{
		"type": "array", "nullable": true, "maxItems": jobs.MaxFetches, "items": web.Object{"type": "string", "format": "uri"},
		"description": "Addresses of several files, or one address without a list. The other members apply to each file; " +
			"name and slug only if there is one file.", "example": []string{"https://example.org/a.pdf"},
	}
	of["items"] = web.Object{
		"type": "array", "nullable": true, "maxItems": jobs.MaxFetches, "items": item,
		"description": "Several files with their own members, or one file without a list. The other members of the " +
			"request apply to each file that does not have its own.", "example": []web.Object{
			{"url": "https://example.org/b.pdf", "slug": "b"},
		},
	}
	return whole
}

// fileSchema is the schema of a file in the answer to its upload.
func fileSchema() web.Object {
	file := shapeOf(&record.Shown{Record: record.Record{Kind: record.Files}}, showing)
	of := file["properties"].(web.Object)
	of["thumbnailUrl"] = web.Object{
		"type": "string", "format": "uri", "description": "A small version of the picture; absent if no thumbnail exists.",
		"example": "https://kist.example.org/t/summer-24",
	}
	of["deletionUrl"] = deletionLink()
	file["required"] = append(file["required"].([]string), "deletionUrl")
	return file
}

// deletionLink is the schema of the address that AppendLinks writes.
func deletionLink() web.Object {
	return web.Object{
		"type": "string", "format": "uri",
		"description": "Address of a page that deletes this item. Anyone who knows the address can use it; the page asks " +
			"first. It is shown only once.",
		"example": "https://kist.example.org" + web.DeletionPath + "AZClx2Jq",
	}
}

// mode says what a shape is used for: to show, to create or to change something.
type mode int

const (
	showing mode = iota
	creating
	editing
)

// shapeOf is the schema of the shape for this use.
func shapeOf(v field.Shaped, m mode) web.Object {
	of := web.Object{}
	var required []string
	hidden, more := forMembers(v)
	for _, f := range field.Of(v).Members() {
		if m == showing && f.Traits&field.WriteOnly != 0 || m != showing && f.Traits&field.ReadOnly != 0 {
			continue
		}
		as := f.Schema()
		switch m {
		case creating:
			as.Nullable = f.Traits&field.Required == 0
		case editing:
			as.Nullable = f.Clears()
		}
		as.Nullable = as.Nullable || hidden[f.Name]
		s := schemaOf(as)
		if at := s["$ref"]; at != nil { // a reference may have no siblings
			s = web.Object{"allOf": []web.Object{s}}
		}
		if f.Doc != "" {
			s["description"] = f.Doc
		}
		if f.Example != "" && (m == showing || !personal[f.Name] || f.Traits&field.Required != 0) {
			s["example"] = json.RawMessage(f.Example)
		}
		of[f.Name] = s
		if m == showing || m == creating && f.Traits&field.Required != 0 {
			required = append(required, f.Name)
		}
	}
	for _, f := range more {
		s := schemaOf(f.Schema())
		if at := s["$ref"]; at != nil {
			s = web.Object{"allOf": []web.Object{s}}
		}
		s["description"], s["example"] = f.Doc, json.RawMessage(f.Example)
		of[f.Name] = s
	}
	out := web.Object{"type": "object", "properties": of}
	if required != nil {
		out["required"] = required
	}
	return out
}

// forMembers says how a record that is read through a collection differs from its owner's: what may be null in it, and
// what it has in addition.
func forMembers(v field.Shaped) (hidden map[string]bool, more []field.Field) {
	own, is := v.(*record.Shown)
	if !is || own.Visitor {
		return nil, nil
	}
	theirs := &record.Shown{Record: record.Record{Kind: own.Kind}, ByMember: true}
	hidden = map[string]bool{}
	mine := map[string]bool{}
	for _, f := range field.Of(v).Members() {
		mine[f.Name] = true
	}
	for _, f := range field.Of(theirs).Members() {
		if !mine[f.Name] {
			more = append(more, f)
		}
		hidden[f.Name] = f.Schema().Nullable
	}
	return hidden, more
}

// schemaOf turns a field's schema into an object of the document.
func schemaOf(s field.Schema) web.Object {
	out := web.Object{"type": s.Type}
	put := func(name string, v any, there bool) {
		if there {
			out[name] = v
		}
	}
	put("format", s.Format, s.Format != "")
	put("pattern", s.Pattern, s.Pattern != "")
	put("minLength", s.MinLength, s.MinLength > 0)
	put("maxLength", s.MaxLength, s.MaxLength > 0)
	put("maxItems", s.MaxItems, s.MaxItems > 0)
	put("nullable", true, s.Nullable)
	if s.Min != nil {
		put("minimum", *s.Min, true)
	}
	if s.Max != nil {
		put("maximum", *s.Max, true)
	}
	switch {
	case len(s.Enum) == 1: // a word that identifies the type of the object
		put("enum", s.Enum, true)
	case s.Enum != nil && s.Nullable:
		return web.EnumOf(s.Enum, true)
	case s.Enum != nil:
		return web.EnumOf(s.Enum, false)
	}
	if s.Free {
		put("additionalProperties", true, true)
	}
	if s.Items != nil {
		name := "items"
		if s.Free {
			name = "additionalProperties"
		}
		put(name, schemaOf(*s.Items), true)
	}
	if s.Members != nil {
		of := web.Object{}
		var names []string
		for _, m := range s.Members {
			as := m.Schema()
			as.Nullable = as.Nullable || s.Input
			ms := schemaOf(as)
			if ms["$ref"] != nil {
				ms = web.Object{"allOf": []web.Object{ms}}
			}
			if m.Doc != "" {
				ms["description"], ms["example"] = m.Doc, json.RawMessage(m.Example)
			}
			of[m.Name] = ms
			names = append(names, m.Name)
		}
		put("properties", of, true)
		put("required", names, len(names) > 0 && !s.Input)
	}
	return out
}
