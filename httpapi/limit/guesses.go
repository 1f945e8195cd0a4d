package limit

import (
	"net/netip"

	"kist/kv/people"
)

// How many wrong guesses of passwords and codes there may be within GuessWindow, and of one-time
// codes in a day. people.Tries counts them, in the store.
const (
	GuessWindow     = people.TryWindow
	GuessesFrom     = 5  // for one thing from one network
	GuessesOfAll    = 20 // for anything from one network
	GuessesOverall  = 30 // for one thing from anywhere
	GuessesOnDevice = 10 // for one account from one browser that has signed in to it
	CodesPerDay     = 20 // for one account; a random code is right once in 330 000
)

// The kinds of these limits (people.Limit). They are stored on disk until the window ends.
const (
	KindFrom    = 'f' // network and thing
	KindAll     = 'n' // network
	KindOverall = 'o' // thing
	KindDevice  = 'd' // browser and account
)

// FromNetwork bounds the guesses at one thing from one network.
func FromNetwork(network netip.Prefix, thing string) people.Limit {
	return people.Limit{Kind: KindFrom, Of: network.String() + " " + thing, Most: GuessesFrom}
}

// AllFromNetwork bounds the guesses at anything from one network.
func AllFromNetwork(network netip.Prefix) people.Limit {
	return people.Limit{Kind: KindAll, Of: network.String(), Most: GuessesOfAll}
}

// Overall bounds the guesses at one thing from anywhere.
func Overall(thing string) people.Limit {
	return people.Limit{Kind: KindOverall, Of: thing, Most: GuessesOverall}
}

// OnDevice bounds the guesses at one thing from a browser that has signed in before.
func OnDevice(device, thing string) people.Limit {
	return people.Limit{Kind: KindDevice, Of: device + " " + thing, Most: GuessesOnDevice}
}

// CodesADay bounds the one-time codes for one thing in a day, those of a browser that has signed
// in before apart from those of all others, whose device is "".
func CodesADay(device, thing string) people.Limit {
	return people.Limit{Kind: people.DayTries, Of: device + " " + thing, Most: CodesPerDay}
}

// IssuerCodes bounds the codes from one network that an issuer refuses.
func IssuerCodes(network netip.Prefix) people.Limit {
	return people.Limit{Kind: KindFrom, Of: network.String() + " oidc", Most: GuessesOfAll}
}
