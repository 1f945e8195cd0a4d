package httpapi

import (
	"kist/httpapi/api"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv/record"
)

// operations lists every operation of the server: its method, path, operationId and access,
// and its description and handler. A row is one line, however long, so that the list reads as a table.
func (s *Server) operations() []Route {
	all := []Route{
		{"GET", "/healthz", "health", web.Anyone, web.Operation{Reply: web.Reply{Status: 200}, AtContentOrigin: true, Serve: health}},
		{"GET", "/readyz", "ready", web.Anyone, web.PageOp(s.ready, 503)},
		{"GET", "/metrics", "readMetrics", web.ReadsMetrics, web.PageOp(s.readMetrics, 404)},
		{"GET", "/healthz/{token}", "probe", web.Anyone, web.Operation{Reply: web.Reply{Status: 200}, Fails: []int{404}, AtContentOrigin: true, Serve: s.probed}},
		{"POST", "/healthz/{token}", "probeBody", web.Anyone, web.PageOp(s.probed, 404)},
		{"GET", "/api/v1/openapi", "readSchema", web.Anyone, readSchemaOp.By(s.readSchema)},
		{"GET", "/api/v1/reference", "readReference", web.Anyone, web.PageOp(readReference)},
		{"GET", "/static/{name}", "readAsset", web.Anyone, web.PageOp(readAsset, 304, 404)},
		{"GET", "/extension.zip", "readExtension", web.Anyone, web.PageOp(s.readExtension, 304)},
		{"GET", "/kinds.json", "readKinds", web.Anyone, web.PageOp(readKinds, 304)},
		{"GET", "/claim/{token}", "readClaim", web.Anyone, api.ReadClaim},
		{"POST", "/claim/{token}", "claim", web.Anyone, api.Claim},

		{"GET", "/x/{slug}", "readRaw", web.Visitors, public.ReadRaw},
		{"GET", "/x/{slug}/{item}", "readCollectionItem", web.Visitors, public.ReadCollectionItem},
		{"GET", "/x/{slug}/{item}/{file}", "readShownFile", web.Visitors, public.ReadShownFile},
		{"GET", "/s/{slug}", "followLink", web.Visitors, public.FollowLink},

		{"GET", "/api/v1/files", "listFiles", web.Reads, api.ListFiles},
		{"GET", "/api/v1/upload", "listUploads", web.Reads, api.ListUploads},
		{"POST", "/api/v1/upload", "uploadFiles", web.Uploads, upload.UploadFiles},
		{"PUT", "/api/v1/upload/{name}", "uploadNamed", web.Uploads, upload.UploadNamed},
		{"GET", "/api/v1/files/{slug}", "readFile", web.Reads, api.ReadFile},
		{"PATCH", "/api/v1/files/{slug}", "editFile", web.Writes, api.EditFile},
		{"DELETE", "/api/v1/files/{slug}", "removeFile", web.Writes, api.RemoveFile},
		{"GET", "/api/v1/files/{slug}/visits", "readFileVisits", web.Reads, api.ReadFileVisits},
		{"PUT", "/api/v1/files/{slug}/poster", "setPoster", web.Writes, upload.SetPoster},
		{"PUT", "/api/v1/files/{slug}/content", "replaceContent", web.Writes, upload.ReplaceContent},
		{"GET", "/api/v1/files/{slug}/versions", "listFileVersions", web.Reads, api.ListFileVersions},
		{"GET", "/api/v1/files/{slug}/versions/{version}", "readFileVersion", web.Reads, api.ReadFileVersion},
		{"POST", "/api/v1/files/{slug}/versions/{version}/restore", "restoreFileVersion", web.Writes, api.RestoreFileVersion},

		{"GET", "/api/v1/folders", "listFolders", web.Reads, api.ListFolders},
		{"POST", "/api/v1/folders", "createFolder", web.Writes, api.CreateFolder},
		{"PATCH", "/api/v1/folders/{id}", "editFolder", web.Writes, api.EditFolder},
		{"DELETE", "/api/v1/folders/{id}", "removeFolder", web.Writes, api.RemoveFolder},

		{"POST", "/api/v1/bulk", "changeMany", web.Writes, api.ChangeMany},
		{"GET", "/api/v1/trash", "listTrash", web.Reads, api.ListTrash},
		{"POST", "/api/v1/trash/restore", "restoreTrash", web.Writes, api.RestoreTrash},
		{"DELETE", "/api/v1/trash", "emptyTrash", web.FullScope, api.EmptyTrash},
		{"DELETE", "/api/v1/trash/{id}", "purgeTrashed", web.FullScope, api.PurgeTrashed},
		{"GET", "/api/v1/collections/{id}/items", "listCollectionItems", web.Reads, api.ListCollectionItems},
		{"POST", "/api/v1/collections/{id}/items", "editCollectionItems", web.Writes, api.EditCollectionItems},
		{"PUT", "/api/v1/collections/{id}/members/{userId}", "setCollectionMember", web.Writes, api.SetCollectionMember},
		{"DELETE", "/api/v1/collections/{id}/members/{userId}", "removeCollectionMember", web.Writes, api.RemoveCollectionMember},
		{"PATCH", "/api/v1/collections/{id}/items/{itemId}", "moveCollectionItem", web.Writes, api.MoveCollectionItem},

		{"GET", "/api/v1/me", "readMe", web.Reads, api.ReadMe},
		{"PATCH", "/api/v1/me", "editMe", web.Writes, api.EditMe},

		{"GET", "/api/v1/people", "listPeople", web.Reads, api.ListPeople},

		{"GET", "/api/v1/activity", "listActivity", web.OwnAccount, api.ListActivity},
		{"GET", "/api/v1/admin/activity", "listAdminActivity", web.Manages, api.ListAdminActivity},

		{"GET", "/api/v1/keys", "listKeys", web.OwnAccount, api.ListKeys},
		{"GET", "/api/v1/keys/current", "readCurrentKey", web.AnyKeyHolder, api.ReadCurrentKey},
		{"POST", "/api/v1/keys", "createKey", web.OwnAccount.Confirmed(), api.CreateKey},
		{"PATCH", "/api/v1/keys/{id}", "editKey", web.OwnAccount.Confirmed(), api.EditKey},
		{"DELETE", "/api/v1/keys/{id}", "removeKey", web.OwnAccount.Confirmed(), api.RemoveKey},

		{"GET", "/api/v1/admin/users", "listUsers", web.Manages, api.ListUsers},
		{"POST", "/api/v1/admin/users", "createUser", web.Manages.Confirmed(), api.CreateUser},
		{"GET", "/api/v1/admin/users/{id}", "readUser", web.Manages, api.ReadUser},
		{"PATCH", "/api/v1/admin/users/{id}", "editUser", web.Manages.Confirmed(), api.EditUser},
		{"DELETE", "/api/v1/admin/users/{id}", "removeUser", web.Manages.Confirmed(), api.RemoveUser},

		{"GET", "/api/v1/admin/invitations", "listInvitations", web.Manages, api.ListInvitations},
		{"POST", "/api/v1/admin/invitations", "createInvitation", web.Manages.Confirmed(), api.CreateInvitation},
		{"DELETE", "/api/v1/admin/invitations/{id}", "removeInvitation", web.Manages, api.RemoveInvitation},
		{"GET", "/join/{token}", "readJoin", web.Visitors, api.ReadJoin},
		{"POST", "/join/{token}", "postJoin", web.Anyone, api.PostJoin},
		{"POST", "/api/v1/auth/join", "join", web.Anyone, api.Join},

		{"POST", "/api/v1/admin/users/{id}/reset-login", "resetUser", web.Manages.Confirmed(), api.ResetUser},
		{"GET", "/login/reset/{token}", "readReset", web.Anyone, api.ReadReset},
		{"POST", "/login/reset/{token}", "reset", web.Anyone, api.Reset},

		{"GET", "/api/v1/admin/settings", "readSettings", web.Manages, api.ReadSettings},
		{"PATCH", "/api/v1/admin/settings", "editSettings", web.Manages.Confirmed(), api.EditSettings},
		{"GET", "/api/v1/admin/stats", "readStats", web.Manages, api.ReadStats},
		{"GET", "/api/v1/admin/health", "readHealth", web.Manages, readHealthOp},
		{"GET", "/api/v1/admin/backups", "listBackups", web.Manages, listBackupsOp},
		{"POST", "/api/v1/admin/backups", "makeBackup", web.Manages, makeBackupOp},
		{"GET", "/api/v1/admin/backup", "readBackup", web.Manages.Confirmed(), readBackupOp.By(s.readBackup)},

		{"GET", "/api/v1/search", "search", web.Reads, api.Search},

		{"POST", "/api/v1/auth/login", "login", web.Anyone, session.Login},
		{"POST", "/api/v1/auth/logout", "logout", web.Anyone, session.Logout},
		{"POST", "/api/v1/auth/second-factor", "secondFactor", web.Anyone, session.SecondFactor},
		{"POST", "/login/second-factor", "postStep", web.Anyone, session.PostStep},
		{"POST", "/login/passkey", "postPasskey", web.Anyone, session.PostPasskey},
		{"POST", "/api/v1/auth/confirm", "confirm", web.Browsers, session.Confirm},
		{"POST", "/login/confirm", "postConfirm", web.Browsers, session.PostConfirm},
		{"POST", "/api/v1/auth/passkey/options", "askPasskey", web.Visitors, session.AskPasskey},
		{"POST", "/api/v1/auth/passkey", "passkeyLogin", web.Anyone, session.PasskeyLogin},
		{"GET", "/api/v1/me/passkeys", "listPasskeys", web.Browsers, session.ListPasskeys},
		{"POST", "/api/v1/me/passkeys/options", "offerPasskey", web.Browsers.Confirmed(), session.OfferPasskey},
		{"POST", "/api/v1/me/passkeys", "addPasskey", web.Browsers.Confirmed(), session.AddPasskey},
		{"PATCH", "/api/v1/me/passkeys/{id}", "editPasskey", web.Browsers.Confirmed(), session.EditPasskey},
		{"DELETE", "/api/v1/me/passkeys/{id}", "removePasskey", web.Browsers.Confirmed(), session.RemovePasskey},
		{"GET", "/api/v1/me/security", "readSecurity", web.Browsers, session.ReadSecurity},
		{"POST", "/api/v1/me/codes", "offerCodes", web.Browsers.Confirmed(), session.OfferCodes},
		{"PUT", "/api/v1/me/codes", "setCodes", web.Browsers.Confirmed(), session.SetCodes},
		{"DELETE", "/api/v1/me/codes", "clearCodes", web.Browsers.Confirmed(), session.ClearCodes},
		{"POST", "/api/v1/me/recovery-codes", "renewRecovery", web.Browsers.Confirmed(), session.RenewRecovery},
		{"GET", "/api/v1/me/sessions", "listSessions", web.OwnAccount, session.ListSessions},
		{"DELETE", "/api/v1/me/sessions", "removeSessions", web.OwnAccount, session.RemoveSessions},
		{"DELETE", "/api/v1/me/sessions/{id}", "removeSession", web.OwnAccount, session.RemoveSession},
		{"POST", "/api/v1/auth/device/authorize", "authorizeDevice", web.Anyone, session.AuthorizeDevice},
		{"POST", "/api/v1/auth/device/token", "pollDevice", web.Anyone, session.PollDevice},
		{"POST", "/api/v1/auth/device/revoke", "revokeDevice", web.AnyKeyHolder, session.RevokeDevice},
		{"POST", "/api/v1/auth/device/verify", "verifyDevice", web.Browsers.ConfirmedIf(session.Approves), session.VerifyDevice},
		{"GET", "/login", "readLogin", web.Anyone, session.ReadLogin},
		{"POST", "/login", "postLogin", web.Anyone, session.PostLogin},
		{"POST", "/logout", "postLogout", web.Anyone, session.PostLogout},
		{"GET", session.OIDCPath, "beginOIDC", web.Visitors, session.BeginOIDC},
		{"GET", session.OIDCPath + "/callback", "finishOIDC", web.Visitors, session.FinishOIDC},
		{"GET", session.OIDCPath + "/end", "leaveOIDC", web.Anyone, session.LeaveOIDC},
		{"GET", "/api/v1/me/identities", "listIdentities", web.OwnAccount, session.ListIdentities},
		{"POST", "/api/v1/me/identities", "linkIdentity", web.Browsers.Confirmed(), session.LinkIdentity},
		{"DELETE", "/api/v1/me/identities/{id}", "removeIdentity", web.OwnAccount.Confirmed(), session.RemoveIdentity},
		{"GET", "/device", "readDevice", web.Visitors, session.ReadDevice},
		{"POST", "/device", "postDevice", web.Browsers.ConfirmedIf(session.Approves), session.PostDevice},

		{"GET", "/v/{slug}", "viewItem", web.Visitors, public.ViewItem},
		{"POST", "/v/{slug}", "unlockItem", web.Visitors, public.UnlockItem},
		{"GET", "/t/{slug}", "readThumbnail", web.Visitors, public.ReadThumbnail},
		{"GET", "/v/{slug}/{item}", "viewCollectionItem", web.Visitors, public.ViewCollectionItem},
		{"GET", "/t/{slug}/{item}", "readCollectionThumbnail", web.Visitors, public.ReadCollectionThumbnail},
		{"GET", "/t/{slug}/{item}/{file}", "readShownThumbnail", web.Visitors, public.ReadShownThumbnail},
		{"GET", "/collections/{id}/board", "readBoard", web.Visitors, public.ReadBoard},
		{"GET", "/g/{username}", "viewGames", web.Visitors, public.ViewGames},

		{"GET", "/{slug}", "viewAnything", web.Visitors, viewAnythingOp},

		{"GET", "/api/v1/integrations/webhooks", "listWebhooks", web.Reads, api.ListWebhooks},
		{"POST", "/api/v1/integrations/webhooks", "createWebhook", web.SendsOn.Confirmed(), api.CreateWebhook},
		{"GET", "/api/v1/integrations/webhooks/{id}", "readWebhook", web.Reads, api.ReadWebhook},
		{"PATCH", "/api/v1/integrations/webhooks/{id}", "editWebhook", web.SendsOn.ConfirmedIf(api.RedirectsWebhook), api.EditWebhook},
		{"DELETE", "/api/v1/integrations/webhooks/{id}", "removeWebhook", web.Writes, api.RemoveWebhook},
		{"POST", "/api/v1/integrations/webhooks/{id}/test", "testWebhook", web.Writes, api.TestWebhook},
		{"GET", "/api/v1/integrations/webhooks/{id}/deliveries", "listDeliveries", web.Reads, api.ListDeliveries},
		{"POST", "/api/v1/integrations/webhooks/{id}/deliveries/{deliveryId}/redeliver", "redeliver", web.Writes, api.Redeliver},

		{"GET", "/api/v1/upload-requests", "listUploadRequests", web.Reads, upload.ListUploadRequests},
		{"POST", "/api/v1/upload-requests", "createUploadRequest", web.Writes, upload.CreateUploadRequest},
		{"GET", "/api/v1/upload-requests/{id}", "readUploadRequest", web.Reads, upload.ReadUploadRequest},
		{"PATCH", "/api/v1/upload-requests/{id}", "editUploadRequest", web.Writes, upload.EditUploadRequest},
		{"DELETE", "/api/v1/upload-requests/{id}", "removeUploadRequest", web.Writes, upload.RemoveUploadRequest},
		{"GET", "/api/v1/upload-requests/queue", "listPendingUploads", web.Reads, upload.ListPendingUploads},
		{"GET", "/api/v1/upload-requests/{id}/queue", "listUploadItems", web.Reads, upload.ListUploadItems},
		{"PATCH", "/api/v1/upload-requests/{id}/queue", "decideUploads", web.Writes, upload.DecideUploads},
		{"PATCH", "/api/v1/upload-requests/{id}/queue/{itemId}", "decideUpload", web.Writes, upload.DecideUpload},
		{"GET", "/api/v1/upload-requests/{id}/queue/{itemId}/content", "readUploadContent", web.Reads, upload.ReadUploadContent},

		{"GET", "/api/v1/upload-requests/p/{slug}", "readUploadLink", web.Visitors, upload.ReadUploadLink},
		{"POST", "/api/v1/upload-requests/p/{slug}/files", "leaveFiles", web.Anyone, upload.LeaveFiles},
		{"POST", "/api/v1/upload-requests/sent", "listSentFiles", web.Anyone, upload.ListSentFiles},
		{"DELETE", "/api/v1/upload-requests/sent/{takeBack}", "takeBackFile", web.Anyone, upload.TakeBackFile},
		{"GET", "/up/{slug}", "viewUploadLink", web.Visitors, upload.ViewUploadLink},
		{"POST", "/up/{slug}", "postFiles", web.Anyone, upload.PostFiles},
		{"POST", "/up/{slug}/unlock", "unlockUploadLink", web.Anyone, upload.UnlockUploadLink},

		{"GET", "/api/v1/captcha/challenge", "readChallenge", web.Anyone, session.ReadChallenge},
		{"POST", "/api/v1/captcha/verify", "verifyCaptcha", web.Anyone, session.VerifyCaptcha},

		{"OPTIONS", "/api/v1/tus", "describeTus", web.Anyone, upload.DescribeTus},
		{"OPTIONS", "/api/v1/tus/{id}", "describeTusOfOne", web.Anyone, upload.DescribeTus},
		{"POST", "/api/v1/tus", "beginUpload", web.Uploads, upload.BeginUpload},
		{"GET", "/api/v1/tus", "listUploadsBegun", web.Reads, upload.ListUploadsBegun},
		{"GET", "/api/v1/tus/{id}", "readUpload", web.Uploads, upload.ReadUpload},
		{"PATCH", "/api/v1/tus/{id}", "continueUpload", web.Uploads, upload.ContinueUpload},
		{"DELETE", "/api/v1/tus/{id}", "cancelUpload", web.Uploads, upload.CancelUpload},
		{"POST", "/api/v1/tus/{id}", "overrideUpload", web.Uploads, upload.OverrideUpload},

		{"OPTIONS", "/api/v1/upload-requests/p/{slug}/tus", "describeSending", web.Anyone, upload.DescribeSending},
		{"POST", "/api/v1/upload-requests/p/{slug}/tus", "beginSending", web.Anyone, upload.BeginSending},
		{"OPTIONS", "/api/v1/upload-requests/tus/{secret}", "describeSendingOfOne", web.Anyone, upload.DescribeSending},
		{"GET", "/api/v1/upload-requests/tus/{secret}", "readSending", web.Anyone, upload.ReadSending},
		{"PATCH", "/api/v1/upload-requests/tus/{secret}", "continueSending", web.Anyone, upload.ContinueSending},
		{"DELETE", "/api/v1/upload-requests/tus/{secret}", "cancelSending", web.Anyone, upload.CancelSending},
		{"POST", "/api/v1/upload-requests/tus/{secret}", "overrideSending", web.Anyone, upload.OverrideSending},

		{"POST", "/api/v1/import", "startImport", web.FullScope, api.StartImport},
		{"GET", "/api/v1/import", "listImports", web.FullScope, api.ListImports},
		{"GET", "/api/v1/import/{id}", "readImport", web.FullScope, api.ReadImport},
		{"DELETE", "/api/v1/import/{id}", "stopImport", web.FullScope, api.StopImport},
		{"GET", "/api/v1/export", "exportAccount", web.FullScope.Confirmed(), api.ExportAccount},

		{"GET", "/api/v1/setups", "listSetups", web.OwnAccount, api.ListSetups},
		{"POST", "/api/v1/setups", "createSetup", web.OwnAccount.Confirmed(), api.CreateSetup},

		{"GET", "/share/delete/{token}", "askDeletion", web.Anyone, public.AskDeletion},
		{"POST", "/share/delete/{token}", "deleteByAddress", web.Anyone, public.DeleteByAddress},

		{"GET", "/api/v1/remote-upload", "listRemoteUploads", web.AnyKeyHolder, upload.ListRemoteUploads},
		{"POST", "/api/v1/remote-upload", "startRemoteUpload", web.Uploads, upload.StartRemoteUpload},
		{"DELETE", "/api/v1/remote-upload", "clearRemoteUploads", web.Writes, upload.ClearRemoteUploads},
		{"GET", "/api/v1/remote-upload/{id}", "readRemoteUpload", web.Uploads, upload.ReadRemoteUpload},
		{"PATCH", "/api/v1/remote-upload/{id}", "decideRemoteUpload", web.Uploads, upload.DecideRemoteUpload},
		{"DELETE", "/api/v1/remote-upload/{id}", "removeRemoteUpload", web.Uploads, upload.RemoveRemoteUpload},

		{"GET", "/help", "readHandbook", web.Visitors, web.PageOp(readHandbook, 400, 503)},
		{"GET", "/help/{topic}", "readTopic", web.Visitors, web.PageOp(readTopic, 404, 503)},
	}
	for _, k := range record.Kinds[1:] { // files are created by uploads
		name, at := web.Title(k.Name), web.APIPath+k.Path
		all = append(all,
			Route{"GET", at, "list" + name + "s", web.Reads, api.ListRecords(k)},
			Route{"POST", at, "create" + name, web.Writes, api.CreateRecord(k)},
			Route{"GET", at + "/{id}", "read" + name, web.Reads, api.ReadRecord(k)},
			Route{"PATCH", at + "/{id}", "edit" + name, web.Writes, api.EditRecord(k)},
			Route{"DELETE", at + "/{id}", "remove" + name, web.Writes, api.RemoveRecord(k)},
			Route{"GET", at + "/{id}/visits", "read" + name + "Visits", web.Reads, api.ReadVisits(k, "id")},
			Route{"POST", at + "/p/{slug}", "readShared" + name, web.Visitors, public.ReadShared(k)})
		if k.Versioned() {
			all = append(all,
				Route{"GET", at + "/{id}/versions", "list" + name + "Versions", web.Reads, api.ListVersions(k)},
				Route{"GET", at + "/{id}/versions/{version}", "read" + name + "Version", web.Reads, api.ReadVersion(k)},
				Route{"POST", at + "/{id}/versions/{version}/restore", "restore" + name + "Version", web.Writes, api.RestoreVersion(k)})
		}
	}
	all = append(all, []Route{
		{"GET", "/about", "readAbout", web.Anyone, web.PageOp(readAbout)},
		{"GET", "/manifest.webmanifest", "readManifest", web.Anyone, web.PageOp(readManifest)},
		{"GET", "/sw.js", "readServiceWorker", web.Anyone, web.PageOp(readServiceWorker)},
		{"POST", "/share", "share", web.Visitors, upload.Share},
		{"GET", "/api/v1/qr", "readQR", web.Reads, readQROp},
		{"POST", "/api/v1/notes/{id}/ticks", "tickNote", web.Writes, api.TickNote},
		{"POST", "/api/v1/markdown", "renderMarkdown", web.Writes, api.RenderMarkdown},
		{"GET", securityText, "readSecurityText", web.Anyone, web.PageOp(readSecurityText, 304, 404)},
		{"GET", "/robots.txt", "readRobots", web.Anyone, web.PageOp(readRobots)},
		{"GET", "/favicon.ico", "readFavicon", web.Anyone, web.PageOp(readFavicon, 303)},
	}...)
	for _, p := range appPages() {
		all = append(all, Route{"GET", p.path, p.id, web.Visitors, s.showApp(p)})
	}
	all = append(all, []Route{
		{"GET", "/api/v1/tags", "listTags", web.Reads, api.ListTags},
		{"POST", "/api/v1/tags", "createTag", web.Writes, api.CreateTag},
		{"PATCH", "/api/v1/tags/{id}", "editTag", web.Writes, api.EditTag},
		{"DELETE", "/api/v1/tags/{id}", "removeTag", web.Writes, api.RemoveTag},
		{"POST", "/api/v1/tags/{id}/merge", "mergeTag", web.Writes, api.MergeTag},
	}...)
	for _, of := range []string{"bookmark", "note", "snippet", "recipe", "shortlink"} { // other names that clients use
		at, name := web.APIPath+of+"-tags", web.Title(of)+"Tag"
		list, create := api.ListTags, api.CreateTag
		list.Deprecated, create.Deprecated = true, true
		all = append(all,
			Route{"GET", at, "list" + name + "s", web.Reads, list},
			Route{"POST", at, "create" + name, web.Writes, create})
	}
	return all
}
