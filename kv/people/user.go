package people

import (
	"time"

	"kist/kv/record"
)

// Role is what a user may do beyond their own content.
type Role string

// The roles.
const (
	Admin  Role = "admin"
	Member Role = "user"
)

// Roles lists the roles.
var Roles = []Role{Admin, Member}

// User is an account.
type User struct {
	ID          record.ID `json:"ID"`
	Name        string    `json:"Name"`
	DisplayName string    `json:"DisplayName"`
	Role        Role      `json:"Role"`
	Disabled    bool      `json:"Disabled"`
	TokensOff   bool      `json:"TokensOff"` // the user's API keys are off
	Quota       int64     `json:"Quota"`     // bytes; -1 is the instance's default
	Password    string    `json:"Password"`
	Created     time.Time `json:"Created"`
	Language    Language  `json:"Language,omitempty"`
	Theme       Theme     `json:"Theme,omitempty"`
	Accent      Accent    `json:"Accent,omitempty"`
}

// Language is the language that a user has chosen; "" leaves it to the browser.
type Language string

// Languages lists the languages.
var Languages = []Language{"de", "en"}

// Theme is the brightness of the app that a user has chosen; "" follows the system.
type Theme string

// Themes lists the themes.
var Themes = []Theme{"light", "dark"}

// Accent is the colour of what can be pressed in the app; "" is the usual one.
type Accent string

// Accents lists the colours. The style sheet of the app has their values.
var Accents = []Accent{"blue", "violet", "rose", "amber"}
