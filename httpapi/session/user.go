package session

import (
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// ShownUser is an account as its owner and administrators see it.
type ShownUser struct {
	people.User
	usage people.Usage
	used  int64
	step  bool
}

func (v *ShownUser) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the user.", web.SampleID)
	s.Ruled("username", &v.Name, record.CleanUserName, record.UserNamePattern, 64).Says("Name to sign in with.", `"ann"`)
	s.Text("displayName", &v.DisplayName, record.MaxName).Says("Display name.", `"Ann"`)
	field.MaybeChoice(s, "language", &v.Language, people.Languages).
		Says("Language of pages and the app; null leaves it to the browser.", `"de"`)
	field.MaybeChoice(s, "theme", &v.Theme, people.Themes).
		Says("Brightness of the app; null follows the system.", `"dark"`)
	field.MaybeChoice(s, "accent", &v.Accent, people.Accents).
		Says("Colour of what can be pressed in the app; null is the usual one.", `"blue"`)
	field.Choice(s, "role", &v.Role, people.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &v.Disabled).Says("Whether the account is disabled.", `false`)
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Whether the user's API keys are off.", `false`)
	s.Bool("hidden", &v.Hidden).Says("Whether the user hides from the other people of this server.", `false`)
	s.Bool("secondFactor", &v.step).
		Says("Whether signing in needs more than the password: the account has one-time codes or a passkey.", `false`)
	s.MaybeNumber("quotaBytes", &v.Quota, 0, 1<<53).
		Says("Bytes that the user may store; 0 means no limit, null means the instance's default. "+
			"The quota applies to the sum of usedBytes and unfinishedBytes.", `null`)
	s.Number("usedBytes", &v.used, 0, 1<<53).
		Says("Bytes that the user stores: files, received files waiting for approval, and textBytes. "+
			"A damaged file counts until it is deleted.", `48213`)
	s.Number("textBytes", &v.usage.Text, 0, 1<<53).
		Says("Bytes of text: the stored records of every kind, tags, folders, upload requests, "+
			"files received through them with their senders' names and messages, remote uploads, "+
			"and the metadata of unfinished uploads.", `1873`)
	s.Number("unfinishedBytes", &v.usage.Begun, 0, 1<<53).
		Says("Bytes reserved for unfinished uploads and remote uploads.", `0`)
	s.Number("quotaEffectiveBytes", &v.usage.Quota, 0, 1<<53).Says("The effective quota; 0 means no limit.", `0`)
	numbers := field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}
	counts := func(dst []byte) []byte { return web.AppendCounts(dst, v.usage.Count) }
	s.Shown("counts", numbers, counts).Says("Number of the user's records, by kind.", `{"file":3,"note":1}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the account was created.", `"2026-01-02T03:04:05.678Z"`)
}

func ShowUser(tx *kv.Tx, u *people.User) (*ShownUser, error) {
	usage, err := catalog.UsageOf(tx, u)
	if err != nil {
		return nil, err
	}
	step, err := people.HasSecondStep(tx, u.ID)
	return &ShownUser{*u, usage, usage.Used(), step}, err
}

// AnswerUser answers with an account.
func AnswerUser(c *web.Request, id record.ID) error {
	var v *ShownUser
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, id)
		if err != nil {
			return err
		}
		v, err = ShowUser(tx, u)
		return err
	}); err != nil {
		return err
	}
	return c.RespondData(c.Status, v)
}
