package apitest

import (
	"net/http"
	"slices"
	"strings"

	"kist/httpapi"
	"kist/httpapi/web"
	"kist/kv/record"
)

// AnswersRecord reports whether the operation answers with one record.
func AnswersRecord(r *httpapi.Route) bool {
	if r.Access.Open || r.Reply.Body == nil {
		return false
	}
	return slices.ContainsFunc(record.Kinds, func(k *record.Kind) bool {
		return r.Reply.Body.Name == web.Title(k.Name)+"Answer" || r.Reply.Body.Name == web.Title(k.Name)+"Created"
	})
}

// Documented reports whether the operation is in the OpenAPI document. Those of programs
// are; pages are not.
func Documented(r *httpapi.Route) bool {
	return strings.HasPrefix(r.Path, web.APIPath) && r.ID != "readReference"
}

// Statuses are the statuses that the operation may answer with besides its usual one: errors,
// 206, 304, and 200 with a page where the usual one is a redirect.
func Statuses(r *httpapi.Route) []int {
	all := append([]int{http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusInternalServerError}, r.Fails...)
	if !r.Access.Open {
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
		if r.Method != http.MethodGet {
			all = append(all, http.StatusInsufficientStorage)
		}
	}
	if r.Changes() {
		all = append(all, http.StatusTooManyRequests)
	}
	if r.Access.Confirms != nil { // with currentPassword
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests)
	}
	if r.Body != nil {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
