"""Common English words by class; those for held-out contents stand apart."""

NOUNS = """
apple arm art baby bag ball bank basket bath bean bear bed bee bell bench bird blanket boat body bone book
boot bottle bowl box boy branch bread bridge brother bucket bus bush butter button cake camel camera camp
candle car card carpet carrot castle cat chain chair cheese chicken child church circle city clock cloud
coat coffee coin comb computer cook corn corner cow crown cup curtain daughter day desk dinner doctor dog
doll door dragon dream dress drum duck dust ear earth egg elephant engine eye face farm farmer father
feather fence field finger fire fish flag floor flower fly food foot forest fork fox friend frog fruit game
garden gate ghost gift girl glass glove goat gold grandmother grass guitar hair hammer hand hat head heart
hen hill honey horn horse hospital house ice island jacket jar juice key king kitchen kite knee knife ladder
lake lamp leaf leg lemon letter light lion lip lock machine man map market meal milk minute mirror money
monkey month moon morning mother mountain mouse mouth music nail name neck needle nest night nose number nut
ocean oil onion orange oven page paint pan paper parrot party path pen pencil pepper phone piano picture pig
pillow pipe plane plant plate pocket poem pond potato queen question rabbit radio rain ring river road rock
roof room root rope rose salt sand school sea seed sheep shell ship shirt shoe shop silver sister sky smile
snail snake snow soap sock son song soup spider spoon square stairs stamp star station stone store storm
story street student sugar sun table tail tea teacher tent ticket tiger time toe tomato tooth towel tower
town toy train tree truck uncle village violin voice wall watch water wave week wheel whistle wind window
winter wolf woman wood word worm year zebra
""".split()
NOUNS_HELD_OUT = """
barn beard canoe cellar cousin donkey fountain helmet hotel ink jungle ladybird library magnet museum napkin
newspaper orchard owl pigeon planet puppet robot sailor sandwich scarf statue suitcase turtle umbrella
valley vase wagon whale
""".split()

VERBS = """
add answer ask bake be begin bite blow borrow break bring build burn buy call carry catch change choose clap
clean climb close come cook count cover cry cut dance dig draw drink drive drop eat enjoy enter fall feed
feel fight fill find finish fix float fly fold follow forget give go grow hear help hide hit hold hop hope
hunt hurry invite join jump keep kick knock know laugh lead learn leave lend lift like listen live look lose
love make meet melt mend mix move need open pack paint park pay pick plan play point pour press pull push
put rain read rest ride ring run save say see sell send sew shake share shine shout show shut sing sink sit
sleep smell sneeze speak spell spend spill stand start stay stop study sweep swim talk taste teach tell
thank think throw tie touch travel try turn use visit wait wake walk want warm wash watch wear whisper win
wish work write yawn
""".split()
VERBS_HELD_OUT = """
admire bounce collect decorate explore gather imagine juggle measure polish repair rescue scream stretch
wander
""".split()

ADJECTIVES = """
angry awake bad beautiful better big black blue brave bright broken brown busy calm careful cheap clean
clear clever cold cool crazy curious dark dear deep different difficult dirty dry early easy empty equal
famous fast fat fine flat free fresh friendly full funny gentle glad golden good great green grey happy hard
heavy high hot hungry icy kind large last late lazy light little lonely long loud low lucky narrow new nice
noisy old open orange perfect pink polite poor pretty proud quick quiet ready red rich ripe round sad safe
sharp short shy silly simple sleepy slow small smart smooth soft sour strange strong sunny sweet tall thick
thin tiny tired true ugly warm weak wet white wide wild wise wonderful wooden wrong yellow young
""".split()
ADJECTIVES_HELD_OUT = """
bitter cheerful cosy dusty elegant fluffy grumpy jolly mighty purple rusty salty shiny sticky tasty wrinkled
""".split()

OTHERS = """
about above after again all almost alone always and any around away back because before behind below between
both but down each enough even every far few first for from here how if in inside into just many maybe more
most much near never next now of off often on once one only or other out over perhaps please quite seldom
since so some soon still than that the then there these they this three through together tomorrow too two
under until up very we well when where which while who why with without yes yesterday yet you
""".split()

# Words for spelling and for random rows of words.
ALL = list(dict.fromkeys(NOUNS + VERBS + ADJECTIVES + OTHERS))
ALL_HELD_OUT = NOUNS_HELD_OUT + VERBS_HELD_OUT + ADJECTIVES_HELD_OUT
