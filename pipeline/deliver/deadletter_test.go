package deliver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// everything is the selection of all letters.
var everything = deliver.Selection{After: -1}

// poison makes the store refuse rows whose v begins with poison.
func poison(store *memory.Store) {
	store.Refuse(func(c *connectors.Change) error {
		if len(c.After) > 1 && strings.HasPrefix(string(c.After[1].Data()), "poison") {
			return errors.New("not digestible")
		}
		return nil
	})
}

func (s *line) letters(q deliver.LetterQuery) deliver.Letters {
	s.t.Helper()
	list, err := deliver.ListLetters(s.t.Context(), s.log, "target", q)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *line) replay(o deliver.Options, which deliver.Selection) deliver.Replayed {
	s.t.Helper()
	out, err := deliver.Replay(s.t.Context(), o, which)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// poisoned has the rows 0 to 5 in the log, of which 2 and 3 are dead letters.
func poisoned(t *testing.T, plain bool) (*line, deliver.Options) {
	t.Helper()
	s := newLine(t)
	s.topics.Partitions = 2
	s.feed.Append(insert(0, "v"), insert(1, "v"), insert(2, "poison 2"), insert(3, "poison 3"), insert(4, "v"), insert(5, "v"))
	s.ingest()
	poison(s.store)
	o := s.options()
	if plain {
		o.Open = s.store.OpenPlain
	}
	s.mustDeliver(o)
	return s, o
}

func TestReplayedLettersAreWrittenOnceAndStayDone(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"transactional": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := poisoned(t, plain)
			list := s.letters(deliver.LetterQuery{})
			if list.Waiting != 2 || len(list.Letters) != 2 {
				t.Fatalf("letters %+v", list)
			}
			for _, l := range list.Letters {
				if l.Topic != itemTopic || !l.HasKey || l.Reason != "not digestible" || l.Key != nil || l.Value != nil {
					t.Errorf("letter %+v", l)
				}
			}
			if shown := s.letters(deliver.LetterQuery{Values: true}); !strings.Contains(string(shown.Letters[0].Value), "poison") {
				t.Errorf("with values: %+v", shown.Letters[0])
			}
			if out := s.replay(o, everything); out.Written != 0 || len(out.Refused) != 2 {
				t.Errorf("replay while the store still refuses: %+v", out)
			}
			s.store.Refuse(nil)
			if out := s.replay(o, deliver.Selection{After: -1, IDs: []int64{list.Letters[1].ID}}); out.Written != 1 {
				t.Errorf("replay of one: %+v", out)
			}
			if out := s.replay(o, everything); out.Written != 1 {
				t.Errorf("replay of the rest: %+v", out)
			}
			if out := s.replay(o, everything); out.Written != 0 {
				t.Errorf("replay of nothing: %+v", out)
			}
			rows := s.rows()
			if len(rows) != 6 || rows["2"] != "poison 2" || rows["3"] != "poison 3" {
				t.Errorf("target holds %v", rows)
			}
			if n := len(s.store.Log()); n != 6 {
				t.Errorf("%d changes took effect, want 6", n)
			}
			if list := s.letters(deliver.LetterQuery{Done: true}); list.Waiting != 0 || list.Done != 2 || list.Letters[0].Done != "replayed" {
				t.Errorf("afterwards %+v", list)
			}
			s.feed.Append(insert(6, "v"))
			s.ingest()
			s.mustDeliver(o)
			if n := len(s.store.Log()); n != 7 {
				t.Errorf("%d changes after the next delivery, want 7", n)
			}
		})
	}
}

func TestAReplayWhoseAnswerWasLostIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	s.store.Refuse(nil)
	s.store.FailAfter(errors.New("connection lost"))
	if _, err := deliver.Replay(t.Context(), o, everything); err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Fatalf("replay = %v", err)
	}
	if list := s.letters(deliver.LetterQuery{}); list.Waiting != 2 {
		t.Errorf("%d wait after the crash", list.Waiting)
	}
	if out := s.replay(o, everything); out.Written != 0 || out.Earlier != 2 {
		t.Errorf("the next replay: %+v", out)
	}
	if n := len(s.store.Log()); n != 6 {
		t.Errorf("%d changes took effect, want 6", n)
	}
	if list := s.letters(deliver.LetterQuery{}); list.Waiting != 0 || list.Done != 2 {
		t.Errorf("afterwards %+v", list)
	}
}

func TestAReplayThatFailedBeforeTheWriteIsDoneAgain(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	s.store.Refuse(nil)
	s.store.FailBefore(errors.New("connection lost"))
	if _, err := deliver.Replay(t.Context(), o, everything); err == nil {
		t.Fatal("replay went through")
	}
	if out := s.replay(o, everything); out.Written != 2 || out.Earlier != 0 {
		t.Errorf("the next replay: %+v", out)
	}
	if n := len(s.store.Log()); n != 6 {
		t.Errorf("%d changes took effect, want 6", n)
	}
}

func TestOneRowRefusedAgainDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	s.store.Refuse(func(c *connectors.Change) error {
		if string(c.After[1].Data()) == "poison 3" {
			return errors.New("still not digestible")
		}
		return nil
	})
	out := s.replay(o, everything)
	if out.Written != 1 || len(out.Refused) != 1 || out.Refused[0].Reason != "still not digestible" {
		t.Errorf("replay: %+v", out)
	}
	list := s.letters(deliver.LetterQuery{})
	if list.Waiting != 1 || list.Letters[0].Reason != "still not digestible" {
		t.Errorf("afterwards %+v", list)
	}
	if s.rows()["2"] != "poison 2" {
		t.Errorf("target holds %v", s.rows())
	}
}

func TestALetterWithANewerRecordIsLeftOut(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	newer := insert(2, "good")
	newer.Op = connectors.Update
	s.feed.Append(newer)
	s.ingest()
	s.mustDeliver(o)
	s.store.Refuse(nil)
	out := s.replay(o, everything)
	if out.Written != 1 || len(out.Left) != 1 || !strings.Contains(out.Left[0].Reason, "newer record") {
		t.Errorf("replay: %+v", out)
	}
	if rows := s.rows(); rows["2"] != "good" || rows["3"] != "poison 3" {
		t.Errorf("target holds %v", rows)
	}
	which := deliver.Selection{After: -1, Superseded: true}
	if out := s.replay(o, which); out.Written != 1 || s.rows()["2"] != "poison 2" {
		t.Errorf("replay of the superseded one: %+v, target %v", out, s.rows())
	}
}

func TestALetterBeforeATruncateIsLeftOut(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	s.feed.Append(truncate())
	s.ingest()
	s.mustDeliver(o)
	s.store.Refuse(nil)
	if out := s.replay(o, everything); out.Written != 0 || len(out.Left) != 2 {
		t.Errorf("replay: %+v", out)
	}
	if len(s.rows()) != 0 {
		t.Errorf("target holds %v", s.rows())
	}
}

func TestDiscardedLettersAreNotReplayed(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	s.store.Refuse(nil)
	id := s.letters(deliver.LetterQuery{}).Letters[0].ID
	if n, err := deliver.Discard(t.Context(), s.log, "target", deliver.Selection{After: -1, IDs: []int64{id}}); n != 1 || err != nil {
		t.Fatalf("discard = %d, %v", n, err)
	}
	if out := s.replay(o, everything); out.Written != 1 {
		t.Errorf("replay: %+v", out)
	}
	if n, err := deliver.Discard(t.Context(), s.log, "target", everything); n != 0 || err != nil {
		t.Errorf("discard of nothing = %d, %v", n, err)
	}
}

func TestAPositionOfAnotherLogHidesNoLetter(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	sink, err := s.store.Open(t.Context(), connectors.Env{Name: "target", Group: "target"})
	if err != nil {
		t.Fatal(err)
	}
	keeper := sink.(connectors.Transactional)
	stream := deliver.ReplayStream(itemTopic)
	if _, err := keeper.Committed(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if err := keeper.Write(t.Context(), connectors.Batch{Stream: stream, Position: connectors.Position("1000")}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.store.Refuse(nil)
	if out := s.replay(o, everything); out.Written != 2 || out.Earlier != 0 {
		t.Errorf("replay: %+v", out)
	}
	if got := s.store.Position("target", stream); string(got) == "1000" {
		t.Errorf("position %s", got)
	}
}

func TestALetterBehindWhichRecordsAreGoneIsLeftOut(t *testing.T) {
	t.Parallel()
	s, o := poisoned(t, false)
	s.store.Refuse(nil)
	if err := s.log.DeleteTopic(t.Context(), itemTopic); err != nil {
		t.Fatal(err)
	}
	if out := s.replay(o, everything); out.Written != 0 || len(out.Left) != 2 || !strings.Contains(out.Left[0].Reason, "not known") {
		t.Errorf("replay: %+v", out)
	}
	if out := s.replay(o, deliver.Selection{After: -1, Superseded: true, Topic: itemTopic}); out.Written != 2 {
		t.Errorf("replay in spite of it: %+v", out)
	}
}
