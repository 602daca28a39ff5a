"""Random whole numbers -> names, texts and codes of the look-alike's articles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNKNOWN_CODE = -1


def _comma_list(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


# product_group_name -> product_type_names; the 19 groups and 132 types (131 names) of rel-hm.
PRODUCT_TYPES: dict[str, str] = {
    "Garment Upper body": "T-shirt,Top,Sweater,Blouse,Shirt,Cardigan,Hoodie,Jacket,Blazer,Vest top,Polo shirt,Coat,"
    "Tunic,Bodysuit,Outdoor waistcoat,Tailored waistcoat",
    "Garment Lower body": "Trousers,Shorts,Skirt,Leggings,Jeans,Outdoor trousers,Joggers,Culottes,Chinos",
    "Garment Full body": "Dress,Jumpsuit,Playsuit,Dungarees,Costume,Outdoor overall,Garment set,Sarong",
    "Accessories": "Earring,Necklace,Ring,Bracelet,Hat,Cap,Beanie,Scarf,Gloves,Belt,Sunglasses,Hair clip,Hairband,"
    "Hair tie,Bow tie,Tie,Watch,Braces,Umbrella,Umbrella,Wallet,Keychain,Brooch,Felt hat,Straw hat,Earrings set",
    "Underwear": "Bra,Briefs,Boxers,Body shaper,Bralette,Underdress,Bra extender,Nipple covers,Suspenders,Thong",
    "Shoes": "Sneakers,Boots,Sandals,Ballerinas,Pumps,Flat shoe,Slippers,Heels,Wedge,Moccasins,Flip flop,Bootie",
    "Swimwear": "Bikini top,Swimwear bottom,Swimsuit,Swim shorts,Swim set,Rash guard",
    "Socks & Tights": "Socks,Tights,Leg warmers,Stay-ups",
    "Nightwear": "Pyjama set,Night gown,Robe,Pyjama trousers,Pyjama jumpsuit,Sleep mask",
    "Cosmetic": "Fine cosmetics,Nail polish,Body lotion,Chem. cosmetics,Make-up brush",
    "Bags": "Bag,Backpack,Tote bag,Clutch,Weekend bag,Bumbag,Shoulder bag",
    "Items": "Dog wear,Water bottle,Side table,Hook,Toy,Candle",
    "Furniture": "Stool,Shelf",
    "Garment and Shoe care": "Washing bag,Clothing mist,Waterproof spray,Shoe brush",
    "Stationery": "Notebook,Marker pen",
    "Interior textile": "Blanket,Cushion,Towel",
    "Fun": "Toy figure,Soft toy",
    "Underwear/nightwear": "Slip dress,Lounge set,Kimono",
    "Unknown": "Unknown",
}
PRODUCT_GROUP_SHARES = (40, 18, 12, 10.5, 5.2, 5, 3, 2.3, 1.8, 0.2, 0.5, 0.3, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.3)

# index_code, index_name, index_group_no, index_group_name, share of the departments.
INDEXES = (
    ("A", "Ladieswear", 1, "Ladieswear", 0.24),
    ("B", "Lingeries/Tights", 1, "Ladieswear", 0.07),
    ("C", "Ladies Accessories", 1, "Ladieswear", 0.07),
    ("D", "Divided", 2, "Divided", 0.15),
    ("F", "Menswear", 3, "Menswear", 0.14),
    ("G", "Baby Sizes 50-98", 4, "Baby/Children", 0.09),
    ("H", "Children Sizes 92-140", 4, "Baby/Children", 0.10),
    ("I", "Children Sizes 134-170", 4, "Baby/Children", 0.06),
    ("J", "Children Accessories, Swimwear", 4, "Baby/Children", 0.04),
    ("S", "Sport", 26, "Sport", 0.04),
)

HUES = _comma_list(
    "Black,White,Blue,Grey,Pink,Red,Beige,Green,Khaki green,Yellow,Orange,Brown,Gold,Turquoise,Purple,Mole"
)
COLOUR_GROUPS = (*tuple(shade + hue for shade in ("", "Dark ", "Light ") for hue in HUES), "Transparent", "Unknown")
COLOUR_VALUES = ("Dark", "Dusty Light", "Light", "Medium Dusty", "Bright", "Medium", "Undefined", "Unknown")
COLOUR_MASTERS = (*HUES, "Bluish Green", "Yellowish Green", "undefined", "Unknown")
APPEARANCES = _comma_list(
    "Solid,All over pattern,Melange,Stripe,Denim,Front print,Placement print,Check,Colour blocking,Lace,"
    "Other structure,Application/3D,Embroidery,Mixed solid/pattern,Glittering/Metallic,Jacquard,Sequin,Dot,"
    "Treatment,Other pattern,Contrast,Metallic,Chambray,Slub,Transparent,Mesh,Neps,Argyle,Hologram,Unknown"
)
GARMENT_GROUPS = _comma_list(
    "Jersey Basic,Jersey Fancy,Accessories,Trousers,Blouses,Knitwear,Dresses Ladies,Shoes,Swimwear,Shirts,"
    "Under-/Nightwear,Outdoor,Socks and Tights,Trousers Denim,Skirts,Shorts,Dressed,Special Offers,"
    "Woven/Jersey/Knitted mix,Dresses/Skirts girls,Unknown"
)

_NAMES = _comma_list(
    "Mia,Alva,Noor,Ellis,Tilda,Juno,Saga,Ines,Luca,Pelle,Stina,Vera,Otto,Ronja,Kim,Lova,Nils,Frida,Hugo,Maj,"
    "Siri,Tove,Wilma,Yrsa,Axel,Bo,Cleo,Dani,Elsa,Finn,Greta,Hedda,Isa,Jack,Karin,Leon,Moa,Nova,Olle,Petra"
)
_QUALITIES = _comma_list(
    "fancy,basic,slim,relaxed,cropped,oversized,printed,soft,wide,fitted,ribbed,light,tall,twill,padded,fine,"
    "crepe,linen,stretch,everyday,party,boxy,wrap,striped,washed,quilted,pleated,cosy,long,short"
)
_FABRICS = _comma_list(
    "soft jersey,cotton twill,stretch denim,woven viscose,a fine knit,a textured knit,airy chiffon,brushed cotton,"
    "organic cotton jersey,a linen blend,crinkled satin,rib-knit cotton,imitation leather,fast-drying fabric,"
    "lightweight sweatshirt fabric,crepe,fleece,a wool blend,corduroy,mesh"
)
_DETAILS = _comma_list(
    "a round neckline,a V-neck,long sleeves,short sleeves,a concealed zip at the back,side pockets,patch pockets,"
    "an elasticated waist,a button placket,dropped shoulders,ribbing at the cuffs and hem,slits in the sides,"
    "a rounded hem,narrow shoulder straps,a drawstring hood,buttoned cuffs,a detachable belt,a decorative print,"
    "a small embroidered motif,turn-ups at the hem,adjustable straps,flatlock seams,pleats at the top"
)
_ENDINGS = _comma_list(
    "Lined.,Unlined.,Regular fit.,Slim fit.,Relaxed fit with a straight cut.,Wide fit.,Soft brushed inside.,"
    "The cotton content is organic.,Partly made from recycled polyester.,Fully lined with a jersey lining."
)
_CARES = (
    "Sizes run small.",
    "The model wears a size S and is 178 cm tall.",
    "Designed to be worn alone or layered under a jacket.",
    "Packed in a cotton bag; the print varies from item to item.",
    "Made in a single size that fits most.",
)
_SUFFIXES = _comma_list(",SB,RW,2-pack,HW,J,PQ,TVP,3-pack,CC,LS,SS,MR,X,Lux,II,ED,BB,LW,NB")
_TOPICS = _comma_list(
    "Basic,Everyday,Contemporary,Modern,Classic,Trend,Casual,Denim,Studio,Campaign,Collaboration,Young,Weekend,"
    "Tailored,Outdoor,Party,Knit,Light,Premium,Essentials"
)
NUM_TEXT_CHOICES = 7  # random columns that `describe_products` reads


@dataclass(frozen=True, kw_only=True)
class TypeBook:
    """The product types: number, name and group index of each (arrays of one length, 132 in rel-hm)."""

    number: np.ndarray
    name: np.ndarray
    group: np.ndarray

    @classmethod
    def build(cls) -> TypeBook:
        """Number the types of `PRODUCT_TYPES` in order; the type of group `Unknown` has the code -1."""
        pairs = [(g, name) for g, names in enumerate(PRODUCT_TYPES.values()) for name in names.split(",")]
        name = np.array([name for _, name in pairs], dtype=object)
        number = np.arange(59, 59 + 3 * len(pairs), 3, dtype=np.int64)
        number[name == "Unknown"] = UNKNOWN_CODE
        return cls(number=number, name=name, group=np.array([g for g, _ in pairs]))


def code_book(names: tuple[str, ...], first: int) -> np.ndarray:
    """Codes `first, first + 1, ...` for the names, and -1 for the name `Unknown`."""
    codes = np.arange(first, first + len(names), dtype=np.int64)
    codes[np.array(names) == "Unknown"] = UNKNOWN_CODE
    return codes


def section_names(index_names: np.ndarray) -> np.ndarray:
    """One section name per entry of `index_names`, the index it belongs to; the last repeats the first."""
    names = [f"{name} {_TOPICS[i % len(_TOPICS)]}" for i, name in enumerate(index_names)]
    return np.array([*names[:-1], names[0]] if len(names) > 1 else names, dtype=object)


def department_names(count: int) -> np.ndarray:
    """Names of `count` departments, of which about 250 of 299 are distinct, as in rel-hm."""
    distinct = max(1, round(count * 250 / 299))
    garments = [name for names in PRODUCT_TYPES.values() for name in names.split(",")]
    names = [f"{_TOPICS[i % len(_TOPICS)]} {garments[i * 5 % len(garments)]}" for i in range(distinct)]
    return np.array([names[i % distinct] for i in range(count)], dtype=object)


def product_names(choice: np.ndarray, type_names: np.ndarray) -> np.ndarray:
    """Product names of shape [products] from `choice` [products, NUM_TEXT_CHOICES], integers >= 0."""
    return np.array([_name(row, name) for row, name in zip(choice, type_names, strict=True)], dtype=object)


def describe_products(choice: np.ndarray, type_names: np.ndarray) -> np.ndarray:
    """Descriptions [products], 142 characters on average, from `choice` [products, NUM_TEXT_CHOICES]."""
    texts = [_describe(row, name) for row, name in zip(choice, type_names, strict=True)]
    return np.array(texts, dtype=object)


def _name(row: np.ndarray, type_name: str) -> str:
    person, quality = _NAMES[row[0] % len(_NAMES)], _QUALITIES[row[1] % len(_QUALITIES)]
    return f"{person} {quality} {type_name.lower()} {_SUFFIXES[row[2] % len(_SUFFIXES)]}".rstrip()


def _describe(row: np.ndarray, type_name: str) -> str:
    quality, fabric = _QUALITIES[row[1] % len(_QUALITIES)], _FABRICS[row[2] % len(_FABRICS)]
    shifts = (0, 1 + row[4] % 7, 8 + row[5] % 7)
    first, second, third = (_DETAILS[(row[3] + shift) % len(_DETAILS)] for shift in shifts)
    ending = _ENDINGS[row[6] % len(_ENDINGS)]
    middle = f"{first}, {second} and {third}" if row[6] % 4 else f"{first} and {second}"
    care = f" {_CARES[row[0] % len(_CARES)]}" if row[5] % 3 else ""
    return f"{quality.capitalize()} {type_name.lower()} in {fabric} with {middle}. {ending}{care}"
