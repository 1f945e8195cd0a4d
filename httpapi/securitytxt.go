package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// securityText is the path of the file that tells whom to report a weakness of the server to (RFC 9116).
const securityText = "/.well-known/security.txt"

// securityMonths is how long such a file is good. RFC 9116 recommends less than a year. Each answer has a later end, so
// what a contact was is not used for long after it has changed.
const securityMonths = 6

// readSecurityText answers with the contact that an administrator has set. The answer changes once a day.
func readSecurityText(c *web.Request) error {
	var set people.Settings
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		return err
	})
	if err != nil {
		return err
	}
	if set.SecurityContact == "" {
		return record.NotFound("security contact")
	}

	today := c.Site.Store.Now().UTC().Truncate(24 * time.Hour)
	lines := []string{
		"Contact: " + set.SecurityContact,
		"Expires: " + today.AddDate(0, securityMonths, 0).Format(time.RFC3339),
		"Preferred-Languages: en",
	}
	if c.Site.BaseURL.Scheme == "https" { // which the field needs
		lines = append(lines, "Canonical: "+c.Site.Base+securityText)
	}
	body := []byte(strings.Join(lines, "\n") + "\n")
	c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.W.Header().Set("Cache-Control", "public, no-cache")
	sum := sha256.Sum256(body)
	return c.UnlessUnchanged(`"`+hex.EncodeToString(sum[:10])+`"`, func() []byte { return body })
}
