package api

import (
	"errors"
	"net/http"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
)

var ReadSettings = web.ReadOp("admin", "Reads the settings of the instance.", "The settings.", "Settings", readSettings)

func readSettings(c *web.Request) error {
	var set people.Settings
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		return err
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, &set)
}

var EditSettings = web.EditOp(
	"admin", "Changes the settings of the instance.", "The settings.", "Settings", editSettings,
)

func editSettings(c *web.Request) error {
	in, err := c.DecodePatch(new(people.Settings))
	if err != nil {
		return err
	}
	var set people.Settings
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		if err != nil {
			return err
		}
		before := set
		if err := errors.Join(field.Patch(&set, in), set.Check()); err != nil {
			return err
		}
		names := changes(&before, &set)
		if before.CaptchaSecret != set.CaptchaSecret {
			names = append(names, "captchaSecret")
		}
		if len(names) == 0 {
			return nil
		}
		return errors.Join(
			people.SetSettings(tx, set),
			people.Note(tx, people.Activity{Event: people.SettingsChanged, By: c.Caller.User.Name, Changes: names}),
		)
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, &set)
}
