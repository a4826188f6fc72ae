from dataclasses import dataclass


@dataclass
class Order:
    number: int


order = Order(7)
