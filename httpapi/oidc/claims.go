package oidc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kist/httpapi/outbound"
)

// claims are what an issuer says about a user, by name.
type claims map[string]json.RawMessage

// text is a claim in words; "" if it is missing or something else.
func (said claims) text(name string) string {
	var t string
	if json.Unmarshal(said[name], &t) != nil {
		return ""
	}
	return outbound.Printable([]byte(t), 1024)
}

// userName is what the issuer calls the user, for short; "" if it says nothing of the kind.
func (said claims) userName() string {
	return cmp.Or(said.text("preferred_username"), said.text("nickname"), said.text("email"))
}

// signedIn is how long before now the claim auth_time is; negative if it is missing or something
// else. The issuer's clock may be a little ahead.
func (said claims) signedIn(now time.Time) time.Duration {
	var at float64
	if json.Unmarshal(said["auth_time"], &at) != nil || at <= 0 || at > float64(now.Add(skew).Unix()) {
		return -1
	}
	return max(0, now.Sub(time.Unix(int64(at), 0)))
}

// at is the claim of that name. If there is none, and the name has dots, it is a path into claims:
// realm_access.roles. Names may have dots themselves. nil if there is nothing, or null.
func (said claims) at(name string) json.RawMessage {
	if value, ok := said[name]; ok {
		if string(value) == "null" {
			return nil
		}
		return value
	}
	for i, c := range name {
		var inner claims
		if c != '.' || json.Unmarshal(said[name[:i]], &inner) != nil {
			continue
		}
		if value := inner.at(name[i+1:]); value != nil {
			return value
		}
	}
	return nil
}

// groupNames are names of groups. nil means that they are not known.
type groupNames []string

// meet reports whether the group is one of them, or none is asked for. Keycloak writes a slash
// before the names of groups.
func (g groupNames) meet(group string) bool {
	return group == "" || slices.ContainsFunc(g, func(name string) bool {
		return strings.TrimPrefix(name, "/") == strings.TrimPrefix(group, "/")
	})
}

// groups are the names in a claim, whatever its shape: a list of names or of objects, one name or
// several with commas between them, or an object whose keys they are.
func (said claims) groups(claim string) groupNames {
	value := said.at(claim)
	if value == nil {
		return nil
	}
	names := groupNames{}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil {
		for _, one := range list {
			names = append(names, namesIn(one)...)
		}
		return names
	}

	names = append(names, namesIn(value)...)
	var text string
	if json.Unmarshal(value, &text) == nil && strings.Contains(text, ",") {
		for one := range strings.SplitSeq(text, ",") {
			names = append(names, strings.TrimSpace(one))
		}
	}
	return names
}

// namesIn are the names in a text, in a number, or in an object: its member name, or else its keys
// but for those that are false or null.
func namesIn(value json.RawMessage) []string {
	if string(value) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []string{text}
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return []string{number.String()}
	}
	var object claims
	if json.Unmarshal(value, &object) != nil {
		return nil
	}
	if name := object.text("name"); name != "" {
		return []string{name}
	}
	maps.DeleteFunc(object, func(_ string, v json.RawMessage) bool { return string(v) == "false" || string(v) == "null" })
	return slices.Sorted(maps.Keys(object))
}

// maxSaid bounds the claims in a line of the log, in bytes.
const maxSaid = 512

// refusal says for the log what the issuer said in place of AllowGroup.
func (c *Client) refusal(groups groupNames, all claims) string {
	show := func(names []string) string { return outbound.Printable([]byte(strings.Join(names, ", ")), maxSaid) }
	switch {
	case len(groups) > 0:
		return fmt.Sprintf("the claim %s has %s, and not %s", c.GroupsClaim, show(groups), c.AllowGroup)
	case all.at(c.GroupsClaim) != nil:
		return fmt.Sprintf("the claim %s is empty or has no names; %s should be there", c.GroupsClaim, c.AllowGroup)
	default:
		return fmt.Sprintf("there is no claim %s with the group %s; the claims are %s",
			c.GroupsClaim, c.AllowGroup, show(slices.Sorted(maps.Keys(all))))
	}
}
