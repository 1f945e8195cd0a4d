package limit

import "kist/kv/people"

// Limits of wrong passwords within GuessWindow, and of wrong one-time codes in a day.
const (
	GuessWindow     = people.TryWindow
	GuessesFrom     = 5  // for one thing from one network
	GuessesOfAll    = 20 // for anything from one network
	GuessesOverall  = 30 // for one thing from anywhere
	GuessesOnDevice = 10 // for one account from one browser that has signed in to it
	CodesPerDay     = 20 // for one account; a random code is right once in 330 000
)

// The kinds of limits (people.Limit). They are stored on disk until the window ends.
const (
	KindFrom    = 'f' // network and thing
	KindAll     = 'n' // network
	KindOverall = 'o' // thing
	KindDevice  = 'd' // browser and account
)
