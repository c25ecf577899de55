use super::model::Random;
use super::*;

/// Puts an object into the bucket and gives what the next one applies on.
fn put(objects: &mut Objects, description: &Description, pages: &[(u32, u8)]) -> Base {
    let (bytes, hash) = object(description, &pages.iter().copied().collect());
    objects.insert(prefix().key(description.key()), bytes);
    Base { at: description.at, hash }
}

/// Segments 1.1 to 1.3 over pages 1 to 3, and what each leads to.
fn three() -> (Objects, [Base; 3]) {
    let mut objects = Objects::new();
    let one = put(&mut objects, &delta(at(1, 1), None, 2, 2), &[(1, 10), (2, 10)]);
    let two = put(&mut objects, &delta(at(1, 2), Some(one), 3, 2), &[(2, 20), (3, 20)]);
    let three = put(&mut objects, &delta(at(1, 3), Some(two), 3, 1), &[(1, 30)]);
    (objects, [one, two, three])
}

fn image(pages: &[(u32, u8)]) -> Image {
    pages.iter().copied().collect()
}

#[test]
fn every_state_of_a_chain_is_restored() {
    let (objects, bases) = three();
    let images = [
        image(&[(1, 10), (2, 10)]),
        image(&[(1, 10), (2, 20), (3, 20)]),
        image(&[(1, 30), (2, 20), (3, 20)]),
    ];
    for (base, image) in bases.into_iter().zip(images) {
        let restored = restore(&objects, base.at).expect("it restores");
        assert_eq!((restored.head, restored.image, restored.reset), (base, image, None));
    }
    assert_eq!(listing(&objects).head(), Some(at(1, 3)));
}

#[test]
fn the_head_is_the_newest_segment_and_no_stand_in() {
    let (mut objects, [_, _, three]) = three();
    // Left of an upload that landed after its segment was collected.
    put(&mut objects, &snapshot(this(at(2, 1), three.hash), 1, None), &[(1, 99)]);
    put(&mut objects, &merged(this(at(2, 9), three.hash), 1, None, 1, None), &[(1, 99)]);
    let listing = listing(&objects);
    assert_eq!(listing.head(), Some(at(1, 3)));
    assert_eq!(highest_generation_in_bucket(&listing), Some(generation(2)));
    assert_eq!(highest_generation_in_bucket(&Listing::default()), None);
}

#[test]
fn a_late_segment_of_an_earlier_generation_is_on_no_chain() {
    let (mut objects, [_, two, three]) = three();
    let four = put(&mut objects, &delta(at(3, 1), Some(two), 3, 1), &[(3, 40)]);
    let late = put(&mut objects, &delta(at(2, 1), Some(three), 3, 1), &[(3, 50)]);
    let restored = restore(&objects, at(3, 1)).expect("it restores");
    assert_eq!(restored.head, four);
    assert_eq!(restored.image, image(&[(1, 10), (2, 20), (3, 40)]));
    assert!(!restored.used.contains(&ObjectKey::Segment(late.at)));
}

#[test]
fn stand_ins_are_used_where_the_chain_asks_for_their_segment() {
    let (mut objects, [one, two, three]) = three();
    let plain = restore(&objects, at(1, 3)).expect("it restores");
    put(
        &mut objects,
        &merged(this(at(1, 3), three.hash), 2, Some(one), 3, None),
        &[(1, 30), (2, 20), (3, 20)],
    );
    let restored = restore(&objects, at(1, 3)).expect("it restores");
    assert_eq!(restored.image, plain.image);
    let run = ObjectKey::Merged { at: at(1, 3), from: 2 };
    assert_eq!(restored.used, [run, ObjectKey::Segment(at(1, 1))]);
    put(&mut objects, &snapshot(this(at(1, 2), two.hash), 3, None), &[(1, 10), (2, 20), (3, 20)]);
    let restored = restore(&objects, at(1, 2)).expect("it restores");
    assert_eq!(restored.used, [ObjectKey::Snapshot(at(1, 2))]);
    put(&mut objects, &snapshot(this(at(1, 3), three.hash), 3, None), &[(1, 30), (2, 20), (3, 20)]);
    let restored = restore(&objects, at(1, 3)).expect("it restores");
    assert_eq!((restored.used, restored.head), (vec![ObjectKey::Snapshot(at(1, 3))], three));
    assert_eq!(restored.image, plain.image);
}

#[test]
fn a_stand_in_of_another_segment_is_not_used() {
    let (mut objects, [_, two, _]) = three();
    let plain = restore(&objects, at(1, 3)).expect("it restores");
    let other = ObjectHash([9; 32]);
    put(&mut objects, &snapshot(this(at(1, 3), other), 1, None), &[(1, 99)]);
    put(&mut objects, &snapshot(this(at(1, 1), two.hash), 1, None), &[(1, 99)]);
    put(
        &mut objects,
        &merged(this(at(1, 2), other), 1, None, 3, None),
        &[(1, 99), (2, 99), (3, 99)],
    );
    let restored = restore(&objects, at(1, 3)).expect("it restores");
    assert_eq!(restored.image, plain.image);
}

#[test]
fn an_object_under_anothers_key_is_not_used() {
    let (mut objects, _) = three();
    let key = |seq| prefix().key(ObjectKey::Segment(at(1, seq)));
    objects.insert(key(2), objects[&key(1)].clone());
    let why = restore(&objects, at(1, 3)).expect_err("the chain is broken");
    assert!(why.contains("1.2") && why.contains("it says that it is"), "{why}");
}

#[test]
fn a_missing_or_damaged_link_is_told_and_nothing_is_guessed() {
    let (objects, _) = three();
    for seq in 1..=3 {
        let key = prefix().key(ObjectKey::Segment(at(1, seq)));
        let mut damaged = objects.clone();
        damaged.get_mut(&key).expect("it is there")[170] ^= 1;
        let why = restore(&damaged, at(1, 3)).expect_err("the chain is broken");
        assert!(why.contains(&format!("1.{seq}")) && why.contains("damaged"), "{why}");
        let mut missing = objects.clone();
        missing.remove(&key);
        let why = restore(&missing, at(1, 3)).expect_err("the chain is broken");
        assert!(why.contains("no object is there"), "{why}");
    }
}

#[test]
fn a_newer_format_on_the_chain_asks_for_an_upgrade() {
    let (mut objects, _) = three();
    let key = ObjectKey::Segment(at(1, 3));
    objects.get_mut(&prefix().key(key)).expect("it is there")[4] = 9;
    let (listing, mut walk) = (listing(&objects), Walk::from(at(1, 3)));
    assert_eq!(walk.wanted(&listing), Ok(Some(vec![key])));
    walk.unusable(key, Object::check_bytes(&objects[&prefix().key(key)]).err().as_ref());
    assert!(walk.wanted(&listing).is_err_and(|broken| broken.is_newer));
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_database_grows_again() {
    let mut objects = Objects::new();
    let one = put(&mut objects, &delta(at(1, 1), None, 3, 3), &[(1, 1), (2, 1), (3, 1)]);
    let two = put(&mut objects, &delta(at(1, 2), Some(one), 2, 1), &[(1, 2)]);
    put(&mut objects, &delta(at(1, 3), Some(two), 3, 1), &[(1, 3)]);
    // Page 3 was cut off and is in nothing since: the writer was wrong, and it is told.
    let why = restore(&objects, at(1, 3)).expect_err("a page is missing");
    assert!(why.contains("1 of the database's 3 pages"), "{why}");
    assert_eq!(restore(&objects, at(1, 2)).expect("it restores").image, image(&[(1, 2), (2, 1)]));
}

#[test]
fn a_first_segment_without_every_page_is_told() {
    let mut objects = Objects::new();
    put(&mut objects, &delta(at(1, 1), None, 2, 1), &[(2, 1)]);
    assert!(restore(&objects, at(1, 1)).is_err_and(|why| why.contains("1 of the database's 2")));
}

#[test]
fn a_reset_ends_the_way_and_later_snapshots_remember_it() {
    let (mut objects, [_, _, three]) = three();
    let reset_at = put(&mut objects, &reset(at(2, 1), Some(three), 1), &[(1, 0)]);
    let restored = restore(&objects, at(2, 1)).expect("it restores");
    assert_eq!((restored.reset, restored.used.len()), (Some(at(2, 1)), 1));
    let next = put(&mut objects, &delta(at(2, 2), Some(reset_at), 1, 1), &[(1, 5)]);
    put(&mut objects, &snapshot(this(at(2, 2), next.hash), 1, Some(at(2, 1))), &[(1, 5)]);
    let restored = restore(&objects, at(2, 2)).expect("it restores");
    assert_eq!((restored.reset, restored.used.len()), (Some(at(2, 1)), 1));
}

#[test]
fn a_merged_object_that_leads_past_what_was_collected_is_passed_over() {
    let (mut objects, [one, _, three]) = three();
    let reset_at = put(&mut objects, &reset(at(1, 4), Some(three), 1), &[(1, 0)]);
    let five = put(&mut objects, &delta(at(1, 5), Some(reset_at), 2, 2), &[(1, 5), (2, 5)]);
    let run = merged(five, 2, Some(one), 2, Some(at(1, 4)));
    put(&mut objects, &run, &[(1, 5), (2, 5)]);
    let with = restore(&objects, at(1, 5)).expect("it restores");
    assert_eq!(with.used, [run.key(), ObjectKey::Segment(at(1, 1))]);
    objects.remove(&prefix().key(ObjectKey::Segment(at(1, 1))));
    let without = restore(&objects, at(1, 5)).expect("it restores");
    let segment = |seq| ObjectKey::Segment(at(1, seq));
    assert_eq!(without.used, [run.key(), segment(5), segment(4)]);
    assert_eq!((&without.image, without.reset), (&with.image, Some(at(1, 4))));
}

#[test]
fn a_history_of_fences_alone_holds_no_database() {
    let mut objects = Objects::new();
    let one = put(&mut objects, &fence(at(1, 1), None, 0), &[]);
    put(&mut objects, &fence(at(4, 1), Some(one), 0), &[]);
    let restored = restore(&objects, at(4, 1)).expect("it restores");
    assert_eq!((restored.image, restored.used.len()), (Image::new(), 2));
}

#[test]
fn a_listing_that_is_cut_off_is_read_on_only_when_the_chain_needs_it() {
    let (objects, bases) = three();
    let prefix = prefix();
    let mut listing = Listing::default();
    let mut walk = Walk::from(at(1, 3));
    assert_eq!(walk.wanted(&listing), Ok(None));
    let mut keys = objects.keys();
    let mut read = |listing: &mut Listing| listing.add(&prefix, keys.next().expect("a key"));
    read(&mut listing);
    // There may be a snapshot at the same position on the next page.
    assert_eq!((listing.head(), walk.wanted(&listing)), (Some(at(1, 3)), Ok(None)));
    read(&mut listing);
    for base in bases.into_iter().rev() {
        let key = ObjectKey::Segment(base.at);
        let mut more = 0;
        let wanted = loop {
            match walk.wanted(&listing).expect("a whole chain") {
                Some(wanted) => break wanted,
                None if more == 0 && base.at.seq() > 1 => read(&mut listing),
                None => listing.complete(),
            }
            more += 1;
        };
        assert_eq!(wanted, [key]);
        let object = Object::check_bytes(&objects[&prefix.key(key)]).expect("a whole object");
        assert_eq!(walk.offer(&listing, key, &object), Offered::Apply);
    }
    assert!(walk.is_over());
    assert_eq!(walk.wanted(&listing), Ok(Some(vec![])));
    listing.add(&prefix, "state/default/default/history/cart/752d31/garbage");
    assert_eq!(listing.ignored(), 1);
}

#[test]
fn what_is_fetched_ahead_is_what_is_used() {
    let (mut objects, [one, _, three]) = three();
    let segment = |seq| ObjectKey::Segment(at(1, seq));
    let ahead = |objects: &Objects, most| Walk::from(at(1, 3)).ahead(&listing(objects), most);
    assert_eq!(ahead(&objects, 8), [segment(3), segment(2), segment(1)]);
    assert_eq!(ahead(&objects, 2), [segment(3), segment(2)]);
    put(&mut objects, &merged(this(at(1, 3), three.hash), 2, Some(one), 3, None), &[(1, 30)]);
    let run = ObjectKey::Merged { at: at(1, 3), from: 2 };
    assert_eq!(ahead(&objects, 8), [segment(3), run, segment(1)]);
    put(&mut objects, &snapshot(this(at(1, 3), three.hash), 1, None), &[(1, 30)]);
    assert_eq!(ahead(&objects, 8), [segment(3), ObjectKey::Snapshot(at(1, 3))]);
}

/// A restore that follows positions and looks at no hash.
fn trusting_restore(objects: &Objects, head: Position) -> Option<Image> {
    let (prefix, listing) = (prefix(), listing(objects));
    let (mut image, mut assembly) = (Image::new(), Assembly::default());
    let mut next = Some(head);
    while let Some(at) = next {
        let mut here: Vec<_> = listing.objects().filter(|key| key.at() == at).collect();
        let key = if at == head { ObjectKey::Segment(at) } else { here.pop()? };
        let bytes = objects.get(&prefix.key(key))?;
        let object = Object::check_bytes(bytes).ok()?;
        let body = object.body();
        let body = &bytes[body.start as usize..body.end as usize];
        let take = |page, bytes: &[u8]| {
            image.insert(page, bytes[0]);
            Ok::<_, std::convert::Infallible>(())
        };
        assembly.apply(&object, body, take).ok()?;
        let base = object.description.base.filter(|_| !object.description.kind.is_whole());
        next = base.map(|base| base.at);
    }
    assembly.finish().ok().map(|_| image)
}

/// A chain over some generations, with what each state is.
fn random_chain(random: &mut Random) -> (Objects, Vec<(Base, Image)>) {
    let mut objects = Objects::new();
    let mut states: Vec<(Base, Image)> = vec![];
    let mut place = at(1, 1);
    for _ in 0..3 + random.below(8) {
        let base = states.last().map(|(base, _)| *base);
        let mut image = states.last().map(|(_, image)| image.clone()).unwrap_or_default();
        let changed: Vec<u32> =
            if base.is_none() { (1..=4).collect() } else { vec![1 + random.below(4) as u32] };
        let pages: Vec<(u32, u8)> =
            changed.iter().map(|page| (*page, random.below(256) as u8)).collect();
        image.extend(pages.iter().copied());
        let base = put(&mut objects, &delta(place, base, 4, 1), &pages);
        if random.below(4) == 0 {
            let whole: Vec<_> = image.iter().map(|(page, byte)| (*page, *byte)).collect();
            put(&mut objects, &snapshot(this(place, base.hash), 4, None), &whole);
        }
        states.push((base, image));
        let new_hold = random.below(3) == 0;
        let next =
            if new_hold { Position::new(place.generation().get() + 1, 1) } else { place.next() };
        place = next.expect("few segments");
    }
    (objects, states)
}

/// A good object of another history takes the place of one below the head. The restore gives the
/// right state or an error; one that trusts positions gives a wrong one.
#[test]
fn a_foreign_object_is_told_and_a_restore_that_trusts_positions_is_caught() {
    let (mut wrong, mut refused, mut right) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = Random(seed * 7919);
        let (mut objects, states) = random_chain(&mut random);
        let (head, image) = states.last().expect("some states");
        let below: Vec<&(Base, Image)> =
            states.iter().filter(|(base, _)| base.at < head.at).collect();
        let place = below[random.below(below.len() as u64) as usize].0.at;
        let foreign_base = Base { at: place, hash: ObjectHash([random.below(256) as u8; 32]) };
        let listed = listing(&objects);
        if listed.contains(ObjectKey::Snapshot(place)) {
            put(
                &mut objects,
                &snapshot(this(place, foreign_base.hash), 4, None),
                &[(1, 1), (2, 2), (3, 3), (4, 4)],
            );
        } else {
            let key = prefix().key(ObjectKey::Segment(place));
            let original = Object::check_bytes(&objects[&key]).expect("a whole object");
            let pages: Vec<(u32, u8)> =
                (1..=4).map(|page| (page, random.below(256) as u8)).collect();
            put(&mut objects, &original.description, &pages);
        }
        match restore(&objects, head.at) {
            Ok(restored) => {
                assert_eq!(restored.image, *image, "seed {seed}");
                right += 1;
            }
            Err(_) => refused += 1,
        }
        wrong +=
            u32::from(trusting_restore(&objects, head.at).is_some_and(|other| other != *image));
    }
    assert!(wrong > 20 && refused > 20 && right > 20, "{wrong} {refused} {right}");
}
